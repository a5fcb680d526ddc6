// Batches of products in every kernel, exact: matrices that lie apart, operands that all share, and
// every epilogue that has matrices of its own.

#include "tests/parallel/kernels/cuda/gemm/tiles.h"

namespace tutti::parallel::cuda {
namespace {

// Several tiles of each, more than the emulation has multiprocessors; of some the depth is split.
TEST(GemmBatch, IsExact) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const bool sharesA : {false, true})
      for (const bool sharesB : {false, true}) {
        const int splits = sharesA == sharesB ? 1 : 2;
        expectRight(arranged(which++, {.rows = 132,
                                       .columns = which % 3 == 0 ? 131 : 140,
                                       .depth = 136,
                                       .in = typesOf(tile).back(),
                                       .out = which % 2 == 0 ? kFloat : kHalf,
                                       .accumulate = which % 5 == 0,
                                       .batch = 3,
                                       .sharesA = sharesA,
                                       .sharesB = sharesB,
                                       .epilogue = {.bias = true, .residual = splits == 2},
                                       .forced = inSplits(tile, splits)}),
                    tile.family);
      }
}

// What is added to is each product's own, also where it comes as a residual does: in lines.
TEST(GemmBatch, AddsToItsOwnResults) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const int splits : {1, 2}) {
      if (!isNarrow(tile)) continue;
      const ElementFormat format = typesOf(tile)[which % 2];
      const ProductCase of = arranged(which++, {.rows = 70,
                                                .columns = 72,
                                                .depth = splits == 1 ? 24 : 136,
                                                .in = format,
                                                .out = format,
                                                .accumulate = true,
                                                .gapC = 8,
                                                .batch = 3,
                                                .epilogue = {.bias = splits == 2},
                                                .forced = inSplits(tile, splits)});
      EXPECT_EQ(Product(of).way(), OutputWay::Lines);
      expectRight(of, tile.family);
    }
}

TEST(GemmBatch, HasEpilogues) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const Activation activation : {Activation::Gelu, Activation::GeluBackward,
                                        Activation::SwiGlu, Activation::SwiGluBackward})
      expectRight(arranged(which++, {.rows = 20,
                                     .columns = which % 2 == 0 ? 36 : 35,
                                     .depth = 72,
                                     .in = typesOf(tile)[0],
                                     .batch = 4,
                                     .sharesB = which % 3 == 0,
                                     .epilogue = {.activation = activation,
                                                  .bias = true,
                                                  .residual = true,
                                                  .scale = 0x1p-6},
                                     .forced = which % 4 == 0 ? inSplits(tile, 2) : tile.forced}),
                  tile.family);
}

// TMA steps from matrix to matrix by whole rows; others go to mma. What four elements of c are
// aligned to depends on all products.
TEST(GemmBatch, TakesAnyDistance) {
  for (int which = 0; which < 4; ++which)
    for (const int32_t gap : {8, 4, 2, 1})
      expectRight(arranged(which, {.rows = 24,
                                   .columns = 40,
                                   .depth = 72,
                                   .batch = 3,
                                   .batchGap = gap,
                                   .forced = "wgmma"}),
                  GemmFamily::Mma);
  for (const TestedTile& tile : {kTf32, kSimt})
    for (const int32_t gap : {4, 2, 1})
      expectRight({.rows = 24,
                   .columns = 40,
                   .depth = 72,
                   .in = kFloat,
                   .batch = 3,
                   .batchGap = gap,
                   .forced = tile.forced},
                  tile.family);
}

}  // namespace
}  // namespace tutti::parallel::cuda
