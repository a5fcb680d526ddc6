// Stream-K: units whose steps clusters share, on the emulation's four multiprocessors, so that runs
// begin and end anywhere in a unit: to the bit of integers, in every way that sums reach c.

#include "tests/parallel/kernels/cuda/gemm/tiles.h"

namespace tutti::parallel::cuda {
namespace {

void expectShared(const ProductCase& of) {
  SCOPED_TRACE(of.describe());
  ASSERT_GT(Product(of).choice().workers, 1);
  expectRight(of, GemmFamily::Wgmma);
}

// A unit of which all have a part, one that has fewer steps than there are clusters, runs that end
// in the next unit, runs with whole units in them; in every arrangement.
TEST(StreamK, IsExact) {
  constexpr Units kUnits[] = {{1, 1, 9}, {1, 1, 3}, {1, 3, 5}, {3, 1, 7}, {5, 1, 3}, {3, 3, 2}};
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const Units& units : kUnits) {
      if (!isWgmma(tile)) continue;
      ProductCase of = vectorizedCase(tile, units);
      of.in = typesOf(tile)[which / 4 % 2];
      of.accumulate = which % 3 == 0;
      expectShared(arranged(which++, of));
    }
}

// Whole units go to c by lines, by pairs and by any way, as do those of which a warp has all sums.
TEST(StreamK, IsExactInEveryWay) {
  const EpilogueCase all{.bias = true, .residual = true, .scale = 2};
  const EpilogueCase gelu{.activation = Activation::Gelu, .bias = true, .scale = 0.25};
  const EpilogueCase gated{.activation = Activation::SwiGlu, .scale = 0.25};
  int which = 0;
  for (const TestedTile& tile : kTiles) {
    if (!isWgmma(tile)) continue;
    ProductCase of = vectorizedCase(tile, {1, 5, 3});
    const auto expectBy = [&](OutputWay way, const ProductCase& wanted) {
      EXPECT_EQ(Product(wanted).way(), way);
      expectShared(arranged(which++, wanted));
    };
    of.accumulate = true;
    expectBy(OutputWay::Pairs, of);
    of.gapC = 1;
    expectBy(OutputWay::Any, of);
    of.accumulate = false, of.gapC = 8, of.out = of.in;
    for (const EpilogueCase& epilogue : {all, gelu, gated}) {
      of.epilogue = epilogue;
      expectBy(OutputWay::Lines, of);
    }
    of.columns -= 3, of.epilogue.activation = Activation::SwiGluBackward;
    expectBy(OutputWay::Any, of);
  }
}

TEST(StreamK, IsExactOfBatches) {
  int which = 0;
  for (const TestedTile& tile : kTiles) {
    if (!isWgmma(tile)) continue;
    ProductCase of = vectorizedCase(tile, {1, 1, 3});
    of.batch = 5;
    of.sharesB = which % 2 == 0;
    of.epilogue.bias = true;
    expectShared(arranged(which++, of));
  }
}

TEST(StreamK, IsNearForAnyNumbers) {
  for (const TestedTile& tile : kTiles) {
    if (!isWgmma(tile)) continue;
    ProductCase of = vectorizedCase(tile, {1, 3, 7});
    of.anyNumbers = true;
    expectShared(of);
  }
}

// Units that are whole runs are dealt out as they are without it, as are those of other kernels.
TEST(StreamK, IsLeftOutWhereNothingIsShared) {
  for (const TestedTile& tile : kTiles) {
    const int32_t clusters = isWgmma(tile) ? 4 / GemmForced::parse(tile.forced).cluster : 1;
    ProductCase of{.rows = 4, .columns = 4, .depth = 200, .forced = inStreams(tile)};
    of.in = typesOf(tile)[0];
    of.batch = clusters;
    EXPECT_EQ(Product(of).choice().workers, 0) << of.forced;
    expectRight(of, tile.family);
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda
