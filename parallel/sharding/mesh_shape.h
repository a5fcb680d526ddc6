#pragma once

// How many ranks there are along each axis, and where each of them is. The product of the extents
// is the number of ranks. Axes are nested in the order of Axis: ranks that differ along Rep alone,
// or Tensor where it has one rank, are neighbours; those that differ along Pipeline alone are
// furthest apart.
//
//   dp=2, tp=2       rank 0: dp 0, tp 0     rank 1: dp 0, tp 1
//                    rank 2: dp 1, tp 0     rank 3: dp 1, tp 1

#include <array>
#include <string>
#include <vector>

#include "parallel/tensor/layout.h"

namespace tutti::parallel {

struct MeshShape {
  std::array<int, kAxisCount> extents = {1, 1, 1, 1, 1, 1, 1};

  int& operator[](Axis axis) { return extents[static_cast<size_t>(axis)]; }
  int operator[](Axis axis) const { return extents[static_cast<size_t>(axis)]; }
  /// The product of the extents. Throws InvalidArgument when one of them is less than 1, or there
  /// are more than 2^31 - 1 ranks.
  int ranks() const;
  /// The product over `axes`.
  int ranks(AxisSet axes) const;
  /// "dp=2,tp=4"; axes that are not named have one rank. Throws InvalidArgument naming what is no
  /// axis, was given before, or has no number from 1 on.
  static MeshShape parse(const std::string& text);
  /// So many ranks along one axis.
  static MeshShape along(Axis axis, int ranks);
  std::string describe() const;  ///< "dp=2,tp=4"; "one rank" where no axis is longer than 1
  bool operator==(const MeshShape&) const = default;
};

/// Where a rank is along each axis.
using MeshPlace = std::array<int, kAxisCount>;
MeshPlace placeOf(const MeshShape& shape, int rank);
int rankAt(const MeshShape& shape, const MeshPlace& place);
/// The ranks that differ from `rank` only along `axes`, and that one, in ascending order.
std::vector<int> ranksAlong(const MeshShape& shape, int rank, AxisSet axes);

}  // namespace tutti::parallel
