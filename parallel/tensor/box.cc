#include "parallel/tensor/box.h"

#include <algorithm>

namespace tutti::parallel {
namespace {

/// Where the element `at` of the tensor lies in a box.
int64_t offsetIn(const Box& box, const std::vector<int64_t>& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < box.size(); ++d) offset = offset * box[d].count() + at[d] - box[d].begin;
  return offset;
}

/// The next element of the first `dims` dimensions of `box`, the last of them fastest. False at the
/// end.
bool advance(std::vector<int64_t>& at, const Box& box, size_t dims) {
  for (size_t d = dims; d-- > 0;) {
    if (++at[d] < box[d].end) return true;
    at[d] = box[d].begin;
  }
  return false;
}

}  // namespace

std::string describe(const Box& box) {
  std::string text = "[";
  for (const Range& range : box)
    text += message(text.size() > 1 ? ", " : "", range.begin, ":", range.end);
  return text + "]";
}

Box wholeOf(const Shape& shape) {
  Box box;
  for (int d = 0; d < shape.rank(); ++d) box.push_back({0, shape[d]});
  return box;
}

Shape extentsOf(const Box& box) {
  std::vector<int64_t> extents;
  for (const Range& range : box) extents.push_back(range.count());
  return Shape(extents);
}

bool isBoxOf(const Box& box, const Shape& shape) {
  if (box.size() != static_cast<size_t>(shape.rank())) return false;
  for (int d = 0; d < shape.rank(); ++d) {
    const Range& range = box[static_cast<size_t>(d)];
    if (range.begin < 0 || range.end < range.begin || range.end > shape[d]) return false;
  }
  return true;
}

Box intersection(const Box& a, const Box& b) {
  require(a.size() == b.size(), "boxes ", describe(a), " and ", describe(b),
          " are not of one tensor");
  Box both = a;
  for (size_t d = 0; d < a.size(); ++d) {
    both[d].begin = std::max(a[d].begin, b[d].begin);
    both[d].end = std::max(both[d].begin, std::min(a[d].end, b[d].end));
  }
  return both;
}

void forEachRun(const Box& from, const Box& to, const std::function<void(const BoxRun&)>& visit) {
  const Box both = intersection(from, to);
  if (std::ranges::any_of(both, [](const Range& range) { return range.count() == 0; })) return;
  // Dimensions that both boxes have whole are part of a run, and so is the one before them.
  size_t outer = both.size();
  int64_t length = 1;
  while (outer > 0) {
    --outer;
    length *= both[outer].count();
    if (both[outer] != from[outer] || both[outer] != to[outer]) break;
  }
  std::vector<int64_t> at;
  for (const Range& range : both) at.push_back(range.begin);
  do {
    visit({offsetIn(from, at), offsetIn(to, at), length});
  } while (advance(at, both, outer));
}

}  // namespace tutti::parallel
