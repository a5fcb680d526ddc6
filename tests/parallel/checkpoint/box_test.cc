// Boxes against their definition, element by element: what two of them have in common, in which
// order and in how few runs; and which sets of boxes make up a tensor.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "parallel/checkpoint/tiling.h"
#include "parallel/tensor/box.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"

namespace tutti::parallel {
namespace {

using tests::outcomeOf;

/// The flat index in the tensor of every element of a box, in the order in which the box has them.
std::vector<int64_t> elementsOf(const Box& box, const Shape& shape) {
  std::vector<int64_t> found;
  for (int64_t flat = 0; flat < shape.count(); ++flat) {
    bool inside = true;
    int64_t rest = flat;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const Range& range = box[static_cast<size_t>(d)];
      inside = inside && rest % shape[d] >= range.begin && rest % shape[d] < range.end;
      rest /= shape[d];
    }
    if (inside) found.push_back(flat);
  }
  return found;
}

class Boxes : public testing::Test {
 protected:
  int64_t below(int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_);
  }
  Shape someShape() {
    std::vector<int64_t> extents(static_cast<size_t>(below(5)));
    for (int64_t& extent : extents) extent = 1 + below(4);
    return Shape(extents);
  }
  Box someBox(const Shape& shape) {
    Box box = wholeOf(shape);
    for (Range& range : box) {
      const int64_t one = below(range.end + 1), other = below(range.end + 1);
      range = {std::min(one, other), std::max(one, other)};
    }
    return box;
  }
  std::vector<Box> someCut(const Shape& shape);
  std::mt19937_64 random_{tests::testSeed()};
};

TEST_F(Boxes, RunsAreTheCommonElementsInOrder) {
  int64_t common = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Shape shape = someShape();
    const Box from = someBox(shape), to = someBox(shape);
    const auto source = elementsOf(from, shape), target = elementsOf(to, shape);
    std::vector<int64_t> copied(target.size(), -1);
    BoxRun last{-1, -1, 0};
    forEachRun(from, to, [&](const BoxRun& run) {
      EXPECT_GT(run.count, 0);
      EXPECT_GE(run.from, last.from + last.count);
      EXPECT_FALSE(run.from == last.from + last.count && run.to == last.to + last.count &&
                   last.count > 0 && shape.rank() == 1)
          << "two runs that are one";
      last = run;
      for (int64_t k = 0; k < run.count; ++k)
        copied.at(static_cast<size_t>(run.to + k)) = source.at(static_cast<size_t>(run.from + k));
    });
    const auto both = elementsOf(intersection(from, to), shape);
    for (size_t k = 0; k < target.size(); ++k) {
      const bool isCommon = std::ranges::binary_search(both, target[k]);
      ASSERT_EQ(copied[k], isCommon ? target[k] : -1) << describe(from) << " to " << describe(to);
      common += isCommon;
    }
  }
  EXPECT_GT(common, 5000);
}

TEST_F(Boxes, WhatLiesInOnePieceIsOneRun) {
  const auto runs = [](const Box& from, const Box& to) {
    int count = 0;
    forEachRun(from, to, [&](const BoxRun&) { ++count; });
    return count;
  };
  const Box whole{{0, 4}, {0, 5}, {0, 6}};
  EXPECT_EQ(runs(whole, whole), 1);
  EXPECT_EQ(runs(whole, {{1, 3}, {0, 5}, {0, 6}}), 1);
  EXPECT_EQ(runs(whole, {{1, 3}, {1, 5}, {0, 6}}), 2);
  EXPECT_EQ(runs(whole, {{1, 3}, {1, 5}, {0, 5}}), 8);
  EXPECT_EQ(runs(whole, {{4, 4}, {0, 5}, {0, 6}}), 0);
  EXPECT_EQ(runs({}, {}), 1);
}

TEST_F(Boxes, AreDescribedAndMeasured) {
  EXPECT_EQ(describe({{0, 4}, {2, 3}}), "[0:4, 2:3]");
  EXPECT_EQ(describe({}), "[]");
  EXPECT_EQ(extentsOf({{1, 4}, {2, 2}}), Shape({3, 0}));
  EXPECT_EQ(outcomeOf([] { extentsOf({{3, 1}}); }).code, ErrorCode::InvalidArgument);
  EXPECT_EQ(outcomeOf([] { intersection({{0, 1}}, {}); }).code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(isBoxOf({{0, 4}}, {4}));
  EXPECT_TRUE(isBoxOf({{4, 4}}, {4}));
  for (const Box& wrong : {Box{}, Box{{0, 5}}, Box{{-1, 2}}, Box{{2, 1}}, Box{{0, 1}, {0, 1}}})
    EXPECT_FALSE(isBoxOf(wrong, {4})) << describe(wrong);
}

/// A whole cut in two, again and again, and now and then some harm to that.
std::vector<Box> Boxes::someCut(const Shape& shape) {
  std::vector<Box> boxes{wholeOf(shape)};
  const auto some = [&]() -> Box& {
    return boxes[static_cast<size_t>(below(static_cast<int64_t>(boxes.size())))];
  };
  for (int64_t cuts = below(5); cuts > 0 && shape.rank() > 0; --cuts) {
    const auto d = static_cast<size_t>(below(shape.rank()));
    Box& first = some();
    Box second = first;
    first[d].end = second[d].begin = second[d].begin + below(second[d].count() + 1);
    boxes.push_back(second);
  }
  if (below(3) == 0) some() = someBox(shape);
  if (below(3) == 0) boxes.push_back(someBox(shape));
  if (below(6) == 0) boxes.push_back(some());
  return boxes;
}

TEST_F(Boxes, MakeUpATensorWhenEachElementIsInOne) {
  std::map<std::string, int> kinds;
  for (int i = 0; i < 20'000; ++i) {
    const Shape shape = someShape();
    const std::vector<Box> boxes = someCut(shape);
    std::vector<std::vector<Box>> having(static_cast<size_t>(shape.count()));
    for (const Box& box : boxes)
      for (const int64_t flat : elementsOf(box, shape))
        having[static_cast<size_t>(flat)].push_back(box);
    const auto wrong =
        std::ranges::find_if(having, [](const auto& list) { return list.size() != 1; });
    std::string expected = "no error";
    if (wrong != having.end()) {
      Box element = wholeOf(shape);
      int64_t rest = wrong - having.begin();
      for (int d = shape.rank() - 1; d >= 0; --d) {
        element[static_cast<size_t>(d)] = {rest % shape[d], rest % shape[d] + 1};
        rest /= shape[d];
      }
      expected = "here: boxes: " + describe(element) +
                 (wrong->empty()
                      ? " is in none"
                      : " is in " + describe(wrong->at(0)) + " and in " + describe(wrong->at(1)));
    }
    ASSERT_EQ(outcomeOf([&] { requireTiling("here", shape, boxes); }).text, expected);
    ++kinds[wrong == having.end() ? "good" : wrong->empty() ? "gap" : "overlap"];
  }
  for (const char* kind : {"good", "gap", "overlap"}) EXPECT_GT(kinds[kind], 1000) << kind;
}

TEST_F(Boxes, ThatCannotMakeUpATensorAreRefused) {
  const auto refusal = [](const Shape& shape, const std::vector<Box>& boxes) {
    return outcomeOf([&] { requireTiling("here", shape, boxes); }).text;
  };
  EXPECT_EQ(refusal({4}, {}), "here: boxes: there are 0, not 1 to 131072");
  EXPECT_EQ(refusal({4}, std::vector<Box>(kMostBoxes + 1, Box{{0, 0}})),
            "here: boxes: there are 131073, not 1 to 131072");
  EXPECT_EQ(refusal({4}, {{{0, 5}}}), "here: boxes: [0:5] is not inside [4]");
  EXPECT_EQ(refusal({}, {{}, {}}), "here: boxes: [] is in [] and in []");
  EXPECT_EQ(refusal({3, 0}, {{{0, 1}, {0, 0}}}), "no error");
  EXPECT_EQ(refusal({3, 0}, {{{0, 1}, {0, 1}}}), "here: boxes: [0:1, 0:1] is not inside [3, 0]");
}

TEST_F(Boxes, OfManyRanksAreCheckedInNoTime) {
  // Every pair of these overlaps along one dimension.
  std::vector<Box> rows, grid;
  for (int64_t i = 0; i < 100'000; ++i) rows.push_back({{0, 3}, {i, i + 1}});
  EXPECT_NO_THROW(requireTiling("rows", {3, 100'000}, rows));
  for (int64_t i = 0; i < 256; ++i)
    for (int64_t j = 0; j < 256; ++j) grid.push_back({{0, 2}, {i, i + 1}, {j, j + 1}, {0, 5}});
  EXPECT_NO_THROW(requireTiling("grid", {2, 256, 256, 5}, grid));
}

}  // namespace
}  // namespace tutti::parallel
