// How sums reach c: which way an output takes, and each way at the edges of what a lane, a line and
// a tile have, to the bit; around c nothing is written, and beyond the operands nothing is read.

#include "tests/parallel/kernels/cuda/gemm/tiles.h"

namespace tutti::parallel::cuda {
namespace {

const EpilogueCase kEpilogues[] = {{},
                                   {.scale = -0.5},
                                   {.bias = true},
                                   {.residual = true},
                                   {.bias = true, .residual = true, .scale = 2}};

/// Of integers' sums, as small as these are.
const EpilogueCase kActivations[] = {
    {.activation = Activation::Gelu, .bias = true, .scale = 0.25},
    {.activation = Activation::Gelu, .keeps = false},
    {.activation = Activation::GeluBackward, .scale = 0.25},
    {.activation = Activation::SwiGlu, .bias = true, .scale = 0.25},
    {.activation = Activation::SwiGluBackward, .bias = true, .scale = 0.25}};

/// Whether lines may be of any columns: halves may not, nor a bias of an odd number.
bool mayBeRagged(const EpilogueCase& epilogue) {
  return !epilogue.bias && epilogue.activation < Activation::SwiGlu;
}

void expectRightBy(OutputWay way, const ProductCase& of, GemmFamily family) {
  SCOPED_TRACE(of.describe());
  EXPECT_EQ(Product(of).way(), way);
  expectRight(of, family);
}

// Rows around the 4 of a store, the 8 of a matrix, the 16 of a warp and the 64 of a warpgroup;
// columns around the 8 of a chunk, the 64 of a line and those of tiles.
TEST(GemmOutputs, AreExactInLines) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const int32_t rows : {1, 5, 13, 16, 67, 140})
      for (const int32_t columns : {8, 56, 64, 72, 136, 264}) {
        if (!isWgmma(tile)) continue;
        const ElementFormat format = typesOf(tile)[which % 2];
        const EpilogueCase& epilogue = kEpilogues[which % 5];
        expectRightBy(OutputWay::Lines,
                      arranged(which++, {.rows = rows,
                                         .columns = columns,
                                         .depth = 24,
                                         .in = format,
                                         .out = format,
                                         .accumulate = !epilogue.residual && which % 4 == 0,
                                         .gapC = which % 3 * 8,
                                         .epilogue = epilogue,
                                         .forced = tile.forced}),
                      tile.family);
      }
}

// The last chunk of a row has 1 to 7 columns, in the first line and in later ones.
TEST(GemmOutputs, AreExactInLinesOfAnyColumns) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const int32_t rows : {3, 66, 140})
      for (const int32_t columns : {1, 7, 12, 63, 65, 130, 201, 263}) {
        if (!isWgmma(tile)) continue;
        const bool isOfResidual = which % 3 == 0;
        expectRightBy(
            OutputWay::Lines,
            arranged(which++, {.rows = rows,
                               .columns = columns,
                               .depth = 24,
                               .in = kBrain,
                               .out = kBrain,
                               .accumulate = !isOfResidual && which % 2 == 0,
                               .gapC = which % 2 * 8,
                               .epilogue = {.bias = columns % 2 == 0, .residual = isOfResidual},
                               .forced = tile.forced}),
            tile.family);
      }
}

// Each activation, of a line or of several, of full tiles and at their edges.
TEST(GemmOutputs, AreRightInLinesWithActivations) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const EpilogueCase& epilogue : kActivations)
      for (const int32_t columns : {8, 72, 264, 61}) {
        if (!isWgmma(tile) || (columns % 8 != 0 && !mayBeRagged(epilogue))) continue;
        const ElementFormat format = typesOf(tile)[which % 2];
        expectRightBy(OutputWay::Lines,
                      arranged(which++, {.rows = which % 3 == 0 ? 13 : 140,
                                         .columns = columns,
                                         .depth = 24,
                                         .in = format,
                                         .out = format,
                                         .gapC = which % 3 * 8,
                                         .epilogue = epilogue,
                                         .forced = tile.forced}),
                      tile.family);
      }
}

TEST(GemmOutputs, AreExactInPairs) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const int32_t rows : {1, 7, 9, 16, 67, 140})
      for (const int32_t columns : {2, 6, 8, 62, 66, 138, 258})
        expectRightBy(OutputWay::Pairs,
                      arranged(which++, {.rows = rows,
                                         .columns = columns,
                                         .depth = 24,
                                         .in = typesOf(tile)[0],
                                         .accumulate = which % 3 != 0,
                                         .gapC = which % 3 * 2,
                                         .forced = tile.forced}),
                      tile.family);
}

// More tiles than multiprocessors, so that blocks have several and consumers their turns; batches;
// and splits, whose partial sums are pairs whatever c is.
TEST(GemmOutputs, AreExactOfManyTiles) {
  int which = 0;
  for (const TestedTile& tile : kTiles)
    for (const bool isLines : {true, false})
      for (const int splits : {1, 3}) {
        const bool isHere = isLines && isWgmma(tile);
        const ElementFormat in = typesOf(tile)[0];
        expectRightBy(isHere ? OutputWay::Lines : OutputWay::Pairs,
                      arranged(which++, {.rows = 268,
                                         .columns = 136,
                                         .depth = 64 * 2 + 8,
                                         .in = in,
                                         .out = isHere ? in : kFloat,
                                         .accumulate = !isHere,
                                         .gapC = 8,
                                         .batch = 3,
                                         .sharesB = which % 2 == 0,
                                         .epilogue = isHere ? kEpilogues[4] : EpilogueCase{},
                                         .forced = inSplits(tile, splits)}),
                      tile.family);
      }
}

// More rows, and more products, than what adds splits has blocks for.
TEST(GemmOutputs, AreExactInSplitsOfManyRowsAndProducts) {
  const std::string forced = inSplits({"mma", GemmFamily::Mma}, 2);
  for (const ProductCase& of :
       {ProductCase{.rows = 4 * 1024 + 5, .columns = 8, .depth = 128},
        ProductCase{.rows = 3, .columns = 4, .depth = 128, .batch = 1027}}) {
    ProductCase split = of;
    split.forced = forced;
    expectRight(split, GemmFamily::Mma);
  }
}

// What is asked for is the same by each way, so bits are: gaps of c alone differ. Several tiles a
// block, so that what lines read besides is fetched before the products of a second one.
TEST(GemmOutputs, HaveTheSameBitsInEveryWay) {
  int which = 0;
  const auto expectSame = [&](const TestedTile& tile, ElementFormat out,
                              const EpilogueCase& epilogue) {
    ProductCase of = arranged(which++, {.rows = 203,
                                        .columns = 152,
                                        .depth = 72,
                                        .in = out,
                                        .out = out,
                                        .accumulate = which % 3 == 0 && !epilogue.residual &&
                                                      epilogue.activation == Activation::None,
                                        .gapC = 8,
                                        .anyNumbers = true,
                                        .epilogue = epilogue,
                                        .forced = tile.forced});
    SCOPED_TRACE(of.describe());
    Product one(of);
    of.gapC = out == kFloat ? 1 : 4;
    Product any(of);
    EXPECT_EQ(any.way(), OutputWay::Any);
    if (isWgmma(tile)) {
      EXPECT_EQ(one.way(), OutputWay::Lines);
    }
    one.run();
    any.run();
    ASSERT_EQ(one.error(), "");
    ASSERT_TRUE(one.elementsOfC() == any.elementsOfC());
  };
  for (const TestedTile& tile : kTiles) {
    const std::vector<ElementFormat> types = typesOf(tile);
    for (const ElementFormat out : types)
      for (const EpilogueCase& epilogue : kEpilogues) expectSame(tile, out, epilogue);
    for (const EpilogueCase& epilogue : kActivations)
      expectSame(tile, types[static_cast<size_t>(which) % types.size()], epilogue);
  }
}

// Each thing that a way does not have is enough.
TEST(GemmOutputs, TakeTheWayThatTheyAllow) {
  const ProductCase lines{.rows = 20, .columns = 24, .depth = 8, .out = kBrain, .gapC = 8};
  const ProductCase pairs{.rows = 20, .columns = 22, .depth = 8, .gapC = 2};
  const auto wayOf = [](ProductCase of, const auto& change) {
    change(of);
    return Product(of).way();
  };
  using Case = ProductCase;
  EXPECT_EQ(wayOf(lines, [](Case&) {}), OutputWay::Lines);
  for (const auto change : {
           +[](Case& x) { x.epilogue = kEpilogues[4]; },
           +[](Case& x) { x.epilogue = {.bias = true, .offsetBias = 2}; },
           +[](Case& x) { x.epilogue.activation = Activation::Gelu; },
           +[](Case& x) { x.epilogue.activation = Activation::SwiGluBackward; },
           +[](Case& x) { x.batch = 2, x.batchGap = 8; },
           +[](Case& x) { x.accumulate = true; },
           +[](Case& x) { x.columns = 21; },
       })
    EXPECT_EQ(wayOf(lines, change), OutputWay::Lines);
  for (const auto change : {
           +[](Case& x) { x.out = kHalf; },
           +[](Case& x) { x.accumulate = true, x.epilogue.residual = true; },
           +[](Case& x) { x.accumulate = true, x.epilogue.activation = Activation::Gelu; },
           +[](Case& x) { x.epilogue = {.activation = Activation::Gelu, .residual = true}; },
           +[](Case& x) { x.epilogue = {.activation = Activation::Gelu, .offsetInner = 4}; },
           +[](Case& x) { x.columns = 20, x.epilogue.activation = Activation::SwiGlu; },
           +[](Case& x) { x.columns = 21, x.epilogue.bias = true; },
           +[](Case& x) { x.gapC = 4; },
           +[](Case& x) { x.offsetC = 4; },
           +[](Case& x) { x.batch = 2, x.batchGap = 4; },
           +[](Case& x) { x.epilogue = {.bias = true, .offsetBias = 1}; },
           +[](Case& x) { x.epilogue = {.residual = true, .offsetResidual = 4}; },
           +[](Case& x) { x.epilogue = {.bias = true, .wideBias = true}; },
           +[](Case& x) { x.epilogue = {.residual = true, .wideResidual = true}; },
           +[](Case& x) { x.epilogue = {.activation = Activation::Gelu, .wideInner = true}; },
       })
    EXPECT_EQ(wayOf(lines, change), OutputWay::Any);
  EXPECT_EQ(wayOf(pairs, [](Case& x) { x.accumulate = true; }), OutputWay::Pairs);
  for (const auto change : {
           +[](Case& x) { x.columns = 21; },
           +[](Case& x) { x.gapC = 1; },
           +[](Case& x) { x.offsetC = 1; },
           +[](Case& x) { x.batch = 2, x.batchGap = 1; },
           +[](Case& x) { x.epilogue.scale = 2; },
           +[](Case& x) { x.epilogue.bias = true; },
           +[](Case& x) { x.epilogue.residual = true; },
           +[](Case& x) { x.epilogue.activation = Activation::SwiGlu; },
       })
    EXPECT_EQ(wayOf(pairs, change), OutputWay::Any);
}

}  // namespace
}  // namespace tutti::parallel::cuda
