// The picture of the ring: a bar for each block of keys and values in each step, a square for each
// pair of pieces, and of these as many skipped as causality hides.

#include "parallel/samples/ring_attention/ring_drawing.h"

#include <gtest/gtest.h>

#include "parallel/tensor/check.h"
#include "tests/parallel/samples/svg_parts.h"

namespace tutti::parallel {
namespace {

constexpr const char* kComputed = "#9fc5e8";
constexpr const char* kDiagonal = "#d6e6f5";
constexpr const char* kSkipped = "#f7f7f7";

TEST(RingDrawing, HasASquareForEachPairOfPieces) {
  for (const int n : {1, 2, 4, 16}) {
    const SvgParts svg(ringSvg({.length = 64L * n, .ranks = n}));
    // One of each in the legend.
    EXPECT_EQ(svg.rectangles(kDiagonal), 2 * n + 1) << n;
    EXPECT_EQ(svg.rectangles(kComputed), n * (2 * n - 1) + 1) << n;
    EXPECT_EQ(svg.rectangles(kSkipped), n * (2 * n - 1) + 1) << n;
    EXPECT_EQ(svg.rectangles(), 1 + n * n + 4 * n * n + 3) << n;
    EXPECT_EQ(svg.lines(), n * (n - 1)) << n;
  }
}

// Each pair of pieces once, in whatever step; those of hidden keys have no words.
TEST(RingDrawing, NamesEachComputedPairOnce) {
  constexpr int kRanks = 3;
  const SvgParts svg(ringSvg({.length = 60, .ranks = kRanks}));
  for (int queries = 0; queries < 2 * kRanks; ++queries)
    for (int keys = 0; keys < 2 * kRanks; ++keys)
      EXPECT_EQ(svg.texts(message("q", queries, " k", keys)), keys <= queries ? 1 : 0);
  for (int owner = 0; owner < kRanks; ++owner)
    EXPECT_EQ(svg.texts(message("K, V of rank ", owner)), kRanks);
}

// In step 1 rank 0 has what the last rank had in step 0.
TEST(RingDrawing, PassesBlocksToTheNextRank) {
  const SvgParts svg(ringSvg({.length = 64, .ranks = 4}));
  const std::vector<std::string> bars = svg.textsWith("K, V of rank ");
  ASSERT_EQ(bars.size(), 16u);
  for (int rank = 0; rank < 4; ++rank)
    for (int step = 0; step < 4; ++step)
      EXPECT_EQ(bars[static_cast<size_t>(4 * rank + step)],
                message("K, V of rank ", (rank + 4 - step) % 4));
}

TEST(RingDrawing, RefusesMoreThanThereIsRoomFor) {
  EXPECT_THROW(ringSvg({.length = 64, .ranks = 17}), Error);
}

}  // namespace
}  // namespace tutti::parallel
