#pragma once

// A tensor as all ranks of a mesh hold it, as plain numbers, and what collectives do to it by their
// definition: nothing here knows how the library plans or performs a redistribution.

#include <ostream>
#include <random>
#include <vector>

#include "parallel/sharding/redistribution.h"

namespace tutti::parallel {

/// Whole numbers, so that sums have no rounding, in row-major order.
struct Values {
  Shape shape;
  std::vector<double> elements;

  /// From -most to most.
  static Values random(const Shape& shape, std::mt19937& random, int most = 1000);
  /// Elements `range` of one dimension.
  Values part(int dimension, Range range) const;
  Values box(const std::vector<Range>& ranges) const;
  static Values joined(const std::vector<Values>& parts, int dimension);
  static Values sum(const std::vector<Values>& summands);
  bool operator==(const Values&) const = default;
};
void PrintTo(const Values& values, std::ostream* out);  // for GoogleTest

/// Every layout of a tensor of so many dimensions in which these axes are partial, replicated, or
/// split a dimension, in every order.
std::vector<Layout> allLayouts(const std::vector<Axis>& axes, int dimensions);

class SimulatedRanks {
 public:
  /// The parts of `whole`; where they are partial, random summands of it, of which all but one are
  /// from -most to most.
  SimulatedRanks(const MeshShape& mesh, const Values& whole, const Layout& layout,
                 std::mt19937& random, int most = 1000);
  /// With these parts.
  SimulatedRanks(const MeshShape& mesh, std::vector<Values> parts)
      : mesh_(mesh), parts_(std::move(parts)) {}

  /// Performs the step. Returns how many elements the rank that sends most has sent, by the usual
  /// ways: a ring for reductions and AllGather, block by block for AllToAll.
  int64_t perform(const RedistributionStep& step);
  /// Whether parts are those of `whole`, or summands of them.
  bool hold(const Values& whole, const Layout& layout) const;
  const Values& part(int rank) const { return parts_[static_cast<size_t>(rank)]; }

 private:
  /// Parts of the ranks that differ from `rank` along `axes` alone, in their order.
  std::vector<Values> along(AxisSet axes, int rank) const;

  MeshShape mesh_;
  std::vector<Values> parts_;
};

}  // namespace tutti::parallel
