#pragma once

// Boxes: parts of a tensor, one range of indices in each dimension. A box says which elements of a
// global tensor some memory or file holds, in row-major order.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

/// Elements [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// One range for each dimension; the box of a scalar has none.
using Box = std::vector<Range>;

std::string describe(const Box& box);  ///< "[0:4, 2:3]"

Box wholeOf(const Shape& shape);
/// The shape of what a box holds. Throws InvalidArgument where a range ends before it begins.
Shape extentsOf(const Box& box);
/// Whether `box` has the dimensions of `shape`, and only elements that are there.
bool isBoxOf(const Box& box, const Shape& shape);
/// The elements that are in both boxes of one tensor; where there is none some range is empty.
Box intersection(const Box& a, const Box& b);

/// Elements that lie one after the other in two boxes: where they begin in each, and how many.
struct BoxRun {
  int64_t from = 0, to = 0, count = 0;
};
/// Calls `visit` for the elements that are in both boxes of one tensor, in ascending order and in
/// runs as long as can be.
void forEachRun(const Box& from, const Box& to, const std::function<void(const BoxRun&)>& visit);

}  // namespace tutti::parallel
