// The kernels of parallel/kernels/cuda/gemm against sums in float64: integers, of which every sum
// is exact, to the bit, and any numbers to a bound that is derived in product.cc.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/parallel/kernels/cuda/gemm/tiles.h"

namespace tutti::parallel::cuda {
namespace {

// All arrangements and types, with and without adding, of a ragged product of several tiles.
TEST(Gemm, IsExactInEveryArrangement) {
  constexpr ElementFormat kOuts[] = {kFloat, kBrain, kHalf};
  int turn = 0;
  for (const TestedTile& tile : kTiles)
    for (int which = 0; which < 4; ++which)
      for (const ElementFormat in : typesOf(tile))
        for (const bool accumulate : {false, true})
          expectRight(arranged(which, {.rows = 136,
                                       .columns = 268,
                                       .depth = 72,
                                       .in = in,
                                       .out = kOuts[turn++ % 3],
                                       .accumulate = accumulate,
                                       .forced = tile.forced}),
                      tile.family);
}

// What sanitizers have the time for: each kernel once, over several tiles and turns of the ring;
// in splits, as a batch and with an epilogue; and, where it has them, in lines with a residual, and
// with steps that clusters share.
TEST(GemmBriefly, IsRight) {
  constexpr Activation kActivations[] = {Activation::Gelu, Activation::GeluBackward,
                                         Activation::SwiGlu, Activation::SwiGluBackward};
  int which = 0;
  for (const TestedTile& tile : kTiles) {
    expectRight(arranged(which++, {.rows = 140,
                                   .columns = 520,
                                   .depth = 264,
                                   .in = typesOf(tile)[0],
                                   .forced = tile.forced}),
                tile.family);
    expectRight(arranged(which++, {.rows = 130,
                                   .columns = 70 + which / 2 % 2 * 2,
                                   .depth = 64 * 7 + 8,
                                   .in = typesOf(tile).back(),
                                   .out = kHalf,
                                   .accumulate = true,
                                   .batch = 2,
                                   .epilogue = {.activation = kActivations[which / 2 % 4],
                                                .bias = true,
                                                .residual = true,
                                                .scale = 0x1p-6},
                                   .forced = inSplits(tile, 2)}),
                tile.family);
    expectRight(arranged(which++, {.rows = 300,
                                   .columns = 262,
                                   .depth = 64 * 5,
                                   .in = typesOf(tile)[0],
                                   .forced = std::string(tile.forced) + ",streamk"}),
                tile.family);
    const ElementFormat format = typesOf(tile)[which / 2 % 2 % typesOf(tile).size()];
    expectRight(arranged(which++, {.rows = 70,
                                   .columns = 136,
                                   .depth = 24,
                                   .in = format,
                                   .out = format,
                                   .gapC = 8,
                                   .epilogue = {.bias = true, .residual = true},
                                   .forced = tile.forced}),
                tile.family);
  }
  for (const int32_t offset : {1, 2, 4})  // of 16 bits; float32 is aligned to its size
    expectRight(arranged(which++, {.rows = 66,
                                   .columns = 50,
                                   .depth = 260,
                                   .offsetA = offset,
                                   .offsetB = offset,
                                   .forced = "mma"}),
                GemmFamily::Mma);
}

// Sizes around those of tiles, fragments and vectors.
TEST(Gemm, IsExactOfRaggedSizes) {
  constexpr int32_t kSizes[] = {1, 2, 7, 8, 9, 31, 63, 64, 65, 127, 128, 129, 255, 257};
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const int32_t size : kSizes)
      for (const auto& [rows, columns, depth] :
           {std::array{size, 33, 40}, std::array{40, size, 70}, std::array{17, 70, size}})
        expectRight(arranged(which++, {.rows = rows,
                                       .columns = columns,
                                       .depth = depth,
                                       .in = typesOf(tile)[0],
                                       .out = which % 3 == 0 ? kBrain : kFloat,
                                       .accumulate = which % 5 == 0,
                                       .forced = tile.forced}),
                    tile.family);
}

// The ring of stages wraps at least twice, within a tile and from tile to tile: more tiles than the
// emulation has multiprocessors, in groups of which the last is smaller.
TEST(Gemm, IsExactThroughTheRingAndOverTiles) {
  int which = 0;
  for (const TestedTile& tile : kTiles) {
    for (const int32_t depth : {64 * 12, 64 * 13 + 8, 64 * 14 + 56})
      expectRight(arranged(which++, {.rows = 130,
                                     .columns = 120,
                                     .depth = depth,
                                     .in = typesOf(tile)[0],
                                     .forced = tile.forced}),
                  tile.family);
    expectRight(arranged(which++, {.rows = 128 * 3 + 9,
                                   .columns = 256 * 4 + 3,
                                   .depth = 64 * 3 + 1,
                                   .in = typesOf(tile)[0],
                                   .forced = tile.forced}),
                tile.family);
  }
  expectRight({.rows = 128 * 17 + 1, .columns = 260, .depth = 9, .forced = kTiles[0].forced},
              GemmFamily::Wgmma);
  expectRight({.rows = 128 * 13 + 1, .columns = 260, .depth = 9, .forced = "mma"}, GemmFamily::Mma);
}

// TMA takes rows that begin at multiples of 16 bytes; others go to mma, whatever is asked for.
TEST(Gemm, TakesAnyAlignment) {
  struct Unaligned {
    int32_t offset, gap;
  };
  for (int which = 0; which < 4; ++which)
    for (const auto& [offset, gap] : {Unaligned{4, 8}, Unaligned{0, 4}, Unaligned{2, 0},
                                      Unaligned{8, 6}, Unaligned{1, 0}, Unaligned{0, 3}})
      for (const bool ofA : {true, false})
        for (const int32_t size : {8, 45})
          expectRight(arranged(which, {.rows = 2 * size,
                                       .columns = size + 70,
                                       .depth = size + 90,
                                       .offsetA = ofA ? offset : 0,
                                       .offsetB = ofA ? 0 : offset,
                                       .gapA = ofA ? gap : 0,
                                       .gapB = ofA ? 0 : gap,
                                       .forced = "wgmma"}),
                      GemmFamily::Mma);
  for (int which = 0; which < 4; ++which)
    for (const TestedTile& tile : {kTf32, kSimt})
      for (const auto& [offset, gap] : {Unaligned{1, 0}, Unaligned{2, 8}, Unaligned{0, 1}})
        expectRight(arranged(which, {.rows = 50,
                                     .columns = 70,
                                     .depth = 40,
                                     .in = kFloat,
                                     .offsetA = offset,
                                     .offsetB = offset,
                                     .gapA = gap,
                                     .gapB = gap,
                                     .forced = tile.forced}),
                    tile.family);
  for (const TestedTile& tile : kTiles)
    for (const ElementFormat out : {kFloat, kBrain, kHalf})
      for (const auto& [offset, gap] :
           {Unaligned{1, 0}, Unaligned{2, 0}, Unaligned{0, 1}, Unaligned{0, 2}, Unaligned{4, 0}})
        expectRight({.rows = 20,
                     .columns = 46,
                     .depth = 16,
                     .in = typesOf(tile)[0],
                     .out = out,
                     .accumulate = gap != 0,
                     .offsetC = offset,
                     .gapC = gap,
                     .forced = tile.forced},
                    tile.family);
}

// Partial sums are NaN before; more splits than steps are as many as these.
TEST(Gemm, IsExactInSplits) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const int32_t splits : {2, 3, 5, 100}) {
      const ElementFormat out = which % 3 == 0 ? kFloat : which % 3 == 1 ? kBrain : kHalf;
      expectRight(arranged(which++, {.rows = 70,
                                     .columns = which % 2 == 0 ? 270 : 131,
                                     .depth = 64 * 7 + 9,
                                     .in = typesOf(tile)[0],
                                     .out = out,
                                     .accumulate = which % 5 < 3,
                                     .forced = inSplits(tile, splits)}),
                  tile.family);
    }
}

TEST(Gemm, IsNearForAnyNumbers) {
  for (const TestedTile& tile : kTiles)
    for (int which = 0; which < 4; ++which)
      for (const ElementFormat in : typesOf(tile))
        for (const int splits : {1, 3})
          expectRight(arranged(which, {.rows = 70,
                                       .columns = 150,
                                       .depth = 300,
                                       .in = in,
                                       .out = (which + splits / 2) % 2 == 0 ? kFloat : in,
                                       .accumulate = which / 2 == 1,
                                       .anyNumbers = true,
                                       .forced = inSplits(tile, splits)}),
                      tile.family);
}

TEST(Gemm, KeepsOtherTypesForTheReferenceKernel) {
  Gemms gemms({.processors = 132, .capability = 90}, {});
  GemmProduct product{.a = {{reinterpret_cast<void*>(256), kBrain}, 8},
                      .b = {{reinterpret_cast<void*>(256), kBrain}, 8},
                      .c = {{reinterpret_cast<void*>(256), kFloat}, 8},
                      .rows = 8,
                      .columns = 8,
                      .depth = 8,
                      .isKMajorA = true,
                      .isKMajorB = true,
                      .accumulate = false};
  EXPECT_EQ(gemms.choose(product).family, GemmFamily::Wgmma);
  for (int32_t* const size : {&product.rows, &product.columns, &product.depth}) {
    *size = 0;
    EXPECT_EQ(gemms.choose(product).family, GemmFamily::Reference);
    *size = 8;
  }
  for (const ElementFormat other : {kFloat, kHalf, ElementFormat::Float64}) {
    product.b.elements.format = other;
    EXPECT_EQ(gemms.choose(product).family, GemmFamily::Reference);
  }
  product.a.elements.format = kHalf;
  product.b.elements.format = kHalf;
  EXPECT_EQ(gemms.choose(product).family, GemmFamily::Wgmma);
  product.a.elements.format = kFloat;
  product.b.elements.format = kFloat;
  EXPECT_EQ(gemms.choose(product).family, GemmFamily::Simt);  // TF32 only where it is asked for
}

}  // namespace
}  // namespace tutti::parallel::cuda
