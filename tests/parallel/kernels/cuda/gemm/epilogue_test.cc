// Epilogues in every kernel: integers to the bit where the epilogue allows, and activations to a
// bound that is derived in epilogue_reference.cc; whatever a kernel keeps, adds to and leaves
// alone.

#include "tests/parallel/kernels/cuda/gemm/tiles.h"

namespace tutti::parallel::cuda {
namespace {

constexpr Activation kActivations[] = {Activation::Gelu, Activation::GeluBackward,
                                       Activation::SwiGlu, Activation::SwiGluBackward};

/// Sums of a few hundred products of integers up to 4, or of normal numbers, are about as large.
constexpr double kSmall = 0x1p-6;

// Scale, bias, residual and what is added to, each alone and all together, of integers.
TEST(GemmEpilogue, IsExactWithoutAnActivation) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const ElementFormat out : {kFloat, kBrain, kHalf})
      for (const EpilogueCase& epilogue :
           {EpilogueCase{.bias = true}, EpilogueCase{.residual = true}, EpilogueCase{.scale = -2},
            EpilogueCase{.bias = true, .residual = true, .scale = 0.5},
            EpilogueCase{.bias = true, .residual = true, .offsetBias = 1}})
        expectRight(arranged(which++, {.rows = 70,
                                       .columns = which % 2 == 0 ? 132 : 67,
                                       .depth = 40,
                                       .in = typesOf(tile)[0],
                                       .out = out,
                                       .accumulate = which % 3 == 0,
                                       .epilogue = epilogue,
                                       .forced = tile.forced}),
                    tile.family);
}

// Any of them may be of float32 beside operands of 16 bits. Rows are such that lines and pairs
// would take them, were it not for what they meet.
TEST(GemmEpilogue, TakesFloat32BesideNarrowOperands) {
  const EpilogueCase wide{.wideInner = true, .wideBias = true, .wideResidual = true};
  const auto with = [&](Activation activation, bool bias, bool residual) {
    EpilogueCase epilogue = wide;
    epilogue.activation = activation, epilogue.bias = bias, epilogue.residual = residual;
    if (activation != Activation::None) epilogue.scale = kSmall;
    return epilogue;
  };
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const EpilogueCase& epilogue :
         {with(Activation::None, true, false), with(Activation::None, false, true),
          with(Activation::None, true, true), with(Activation::Gelu, false, false),
          with(Activation::GeluBackward, true, false), with(Activation::SwiGlu, false, false),
          with(Activation::SwiGluBackward, true, false)}) {
      if (!isNarrow(tile)) continue;
      const ElementFormat in = typesOf(tile)[which % 2];
      for (const ElementFormat out : {in, kFloat})
        expectRight(arranged(which, {.rows = 70,
                                     .columns = which % 3 == 0 ? 136 : 72,
                                     .depth = 72,
                                     .in = in,
                                     .out = out,
                                     .gapC = 8,
                                     .anyNumbers = which % 2 == 1,
                                     .epilogue = epilogue,
                                     .forced = which % 4 == 3 ? inSplits(tile, 2) : tile.forced}),
                    tile.family);
      ++which;
    }
}

// Every activation to every type, added to or not, of rows that are vectors' and of others, in
// splits or not, with and without what comes around it.
TEST(GemmEpilogue, ComputesActivations) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const Activation activation : kActivations)
      for (const ElementFormat out : {kFloat, kBrain, kHalf})
        for (const bool isVector : {true, false}) {
          const bool isMore = which / 3 % 2 == 0;
          expectRight(
              arranged(which++, {.rows = 35,
                                 .columns = isVector ? 36 : 37,
                                 .depth = 130,
                                 .in = typesOf(tile)[which % typesOf(tile).size()],
                                 .out = out,
                                 .accumulate = which % 5 < 2,
                                 .anyNumbers = which % 2 == 0,
                                 .epilogue = {.activation = activation,
                                              .keeps = which % 7 != 0,
                                              .bias = isMore,
                                              .residual = isMore,
                                              .scale = kSmall},
                                 .forced = which % 4 == 0 ? inSplits(tile, 2) : tile.forced}),
              tile.family);
        }
}

// Several tiles of ragged products, and operands of the epilogue that are aligned in other ways
// than c.
TEST(GemmEpilogue, ComputesActivationsOfSeveralTiles) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const Activation activation : kActivations)
      expectRight(arranged(which++, {.rows = 150,
                                     .columns = which % 7 != 0 ? 264 : 265,
                                     .depth = 72,
                                     .in = typesOf(tile)[0],
                                     .epilogue = {.activation = activation,
                                                  .bias = true,
                                                  .residual = true,
                                                  .scale = kSmall,
                                                  .offsetInner = which % 5 == 1,
                                                  .offsetBias = which % 5 == 2,
                                                  .offsetResidual = which % 5 == 3},
                                     .forced = tile.forced}),
                  tile.family);
}

}  // namespace
}  // namespace tutti::parallel::cuda
