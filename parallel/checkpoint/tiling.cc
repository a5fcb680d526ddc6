#include "parallel/checkpoint/tiling.h"

#include <algorithm>
#include <array>
#include <bit>

// Let n(e) be the number of boxes that have the element e. One box's share of n is 1 inside and 0
// outside, and the differences of that, taken along each dimension in turn, are +1 and -1 at its
// corners and 0 elsewhere. From its differences n is got back by adding them up, so n is 1 in the
// whole tensor and 0 outside exactly when the corners of all boxes add up to those of the whole.
// Where they do not, n is wrong by the sum at the first such corner, as all corners before that one
// are right, and right at every element that is before it along all dimensions.

namespace tutti::parallel {
namespace {

struct Corner {
  std::array<int64_t, kMaxDims> at{};
  int64_t sign = 0;
};

void addCorners(std::vector<Corner>& corners, const Box& box, int64_t sign) {
  for (unsigned ends = 0; ends < 1u << box.size(); ++ends) {
    Corner corner{.sign = std::popcount(ends) % 2 == 0 ? sign : -sign};
    for (size_t d = 0; d < box.size(); ++d)
      corner.at[d] = (ends >> d & 1) != 0 ? box[d].end : box[d].begin;
    corners.push_back(corner);
  }
}

/// The first place where the corners do not add up to 0, and what they add up to there: 0 when
/// there is none.
Corner firstSum(std::vector<Corner>& corners) {
  std::ranges::sort(corners, {}, &Corner::at);
  Corner sum;
  for (const Corner& corner : corners) {
    if (corner.at != sum.at && sum.sign != 0) break;
    sum = {corner.at, corner.at == sum.at ? sum.sign + corner.sign : corner.sign};
  }
  return sum;
}

/// The element, and the first two boxes that have it.
std::string describeAt(const Corner& wrong, const std::vector<Box>& boxes) {
  Box element;
  for (size_t d = 0; d < boxes.front().size(); ++d)
    element.push_back({wrong.at[d], wrong.at[d] + 1});
  std::string having;
  for (size_t i = 0, found = 0; i < boxes.size() && found < 2; ++i)
    if (extentsOf(intersection(boxes[i], element)).count() > 0)
      having += message(found++ == 0 ? " is in " : " and in ", describe(boxes[i]));
  return describe(element) + (having.empty() ? " is in none" : having);
}

}  // namespace

void requireTiling(const std::string& where, const Shape& shape, const std::vector<Box>& boxes) {
  require(!boxes.empty() && boxes.size() <= kMostBoxes, where, ": boxes: there are ", boxes.size(),
          ", not 1 to ", kMostBoxes);
  std::vector<Corner> corners;
  corners.reserve((boxes.size() + 1) << shape.rank());
  for (const Box& box : boxes) {
    if (!isBoxOf(box, shape))
      fail(ErrorCode::InvalidArgument, where, ": boxes: ", describe(box), " is not inside ", shape);
    addCorners(corners, box, 1);
  }
  addCorners(corners, wholeOf(shape), -1);
  if (const Corner wrong = firstSum(corners); wrong.sign != 0)
    fail(ErrorCode::InvalidArgument, where, ": boxes: ", describeAt(wrong, boxes));
}

}  // namespace tutti::parallel
