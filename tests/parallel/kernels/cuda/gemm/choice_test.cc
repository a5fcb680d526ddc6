// Which kernel computes a product, for a chip that no machine here has: a function of numbers
// alone.

#include <gtest/gtest.h>

#include <tutti/error.h>

#include <map>
#include <string>

#include "parallel/kernels/cuda/gemm/gemms.h"
#include "parallel/tensor/arena.h"
#include "tests/parallel/kernels/cuda/captured.h"

namespace tutti::parallel::cuda {
namespace {

constexpr GemmChip kHopper{.processors = 132, .capability = 90};
constexpr GemmChip kAmpere{.processors = 108, .capability = 80};
constexpr GemmAllowed kAll{.mma = true, .wgmma = true};
constexpr GemmAllowed kFloats{.simt = true};

/// What the model says of the best choice, as a part of the tensor cores' time.
double shareOfPeak(const GemmShape& shape, const GemmChoice& choice, const GemmChip& chip) {
  for (const GemmTile& tile : gemmTiles())
    if (tile.family == choice.family && tile.columns == choice.columns &&
        tile.cluster == choice.cluster && tile.schedule == choice.schedule) {
      const double ofTile =
          static_cast<double>(kTileRows) * tile.columns * stepDepthOf(tile.family);
      const double work = static_cast<double>(shape.rows) * static_cast<double>(shape.columns) *
                          static_cast<double>(shape.depth);
      return work / ofTile * tile.stepCycles / chip.processors /
             predictedCycles(shape, tile, choice, chip);
    }
  return 0;
}

GemmShape dataGradientOf(const GemmShape& x) { return {x.rows, x.depth, x.columns}; }
GemmShape weightGradientOf(const GemmShape& x) { return {x.columns, x.depth, x.rows}; }

// Layers of GPT-2 (124 million) on 16 sequences of 1024, of Llama 3 8B and 70B on 8192 tokens.
const GemmShape kLayers[] = {
    {16384, 2304, 768},   {16384, 768, 768},   {16384, 3072, 768},  {16384, 768, 3072},
    {8192, 6144, 4096},   {8192, 4096, 4096},  {8192, 28672, 4096}, {8192, 4096, 14336},
    {8192, 128256, 4096}, {8192, 10240, 8192}, {8192, 8192, 8192},  {8192, 57344, 8192},
    {8192, 8192, 28672},
};

TEST(GemmChoice, FillsTheChipForRealLayers) {
  for (const GemmShape& forward : kLayers)
    for (const GemmShape& shape : {forward, dataGradientOf(forward), weightGradientOf(forward)})
      for (const GemmChip& chip : {kHopper, kAmpere}) {
        const GemmChoice choice = chooseGemm(shape, kAll, chip);
        EXPECT_EQ(choice.family, chip.capability == 90 ? GemmFamily::Wgmma : GemmFamily::Mma);
        EXPECT_GT(shareOfPeak(shape, choice, chip), 0.5)
            << shape.rows << " " << shape.columns << " " << shape.depth;
      }
  // Large ones: the widest tile, in pairs that share b, whole.
  EXPECT_EQ(chooseGemm({8192, 8192, 8192}, kAll, kHopper),
            (GemmChoice{GemmFamily::Wgmma, GemmSchedule::Together, 256, 2, 1}));
}

// A gradient of 768 x 768 over 16384 tokens has 18 wide tiles for 132 multiprocessors.
TEST(GemmChoice, SplitsTheDepthWhereTilesAreFew) {
  for (const GemmChip& chip : {kHopper, kAmpere}) {
    EXPECT_GT(chooseGemm({768, 768, 16384}, kAll, chip).splits, 2);
    EXPECT_GT(chooseGemm({128, 128, 65536}, kAll, chip).splits, 8);
    EXPECT_EQ(chooseGemm({768, 768, 64}, kAll, chip).splits, 1);
    EXPECT_EQ(chooseGemm({16384, 16384, 1024}, kAll, chip).splits, 1);
  }
}

// Queries, keys and values of GPT-2 124M, and shorter depths still: the one consumer stores while
// the other multiplies. Of a long depth storing is little, and they share a tile.
TEST(GemmChoice, TakesTurnsWhereStoringIsMuchOfATile) {
  for (const GemmShape& shape : {GemmShape{8192, 2304, 768}, {4096, 3072, 256}, {8192, 768, 64}})
    EXPECT_EQ(chooseGemm(shape, kAll, kHopper),
              (GemmChoice{GemmFamily::Wgmma, GemmSchedule::InTurn, 128, 1, 1}))
        << shape.rows << " " << shape.columns << " " << shape.depth;
  for (const GemmShape& shape : {GemmShape{8192, 2304, 8192}, {4096, 4096, 4096}})
    EXPECT_EQ(chooseGemm(shape, kAll, kHopper).schedule, GemmSchedule::Together) << shape.columns;
}

TEST(GemmChoice, MakesNoEmptySplit) {
  for (const int64_t depth : {1, 63, 64, 65, 640, 1000, 5000})
    for (int32_t wanted = 1; wanted <= 20; ++wanted) {
      GemmForced forced;
      forced.splits = wanted;
      const GemmShape shape{300, 300, depth};
      const GemmChoice choice = chooseGemm(shape, kAll, kHopper, forced);
      const GemmTiles tiles = tilesOf(shape, choice);
      EXPECT_LE(choice.splits, wanted);
      EXPECT_LT((tiles.splits - 1) * tiles.stepsOfSplit, tiles.steps);
      EXPECT_GE(tiles.splits * tiles.stepsOfSplit, tiles.steps);
    }
}

// For who asks for it; the runs of 132 clusters, or 66 of two, are all steps there are.
TEST(GemmChoice, SharesAllStepsByStreamK) {
  for (const char* const tile : {"columns=256,cluster=1", "columns=256,cluster=2", "turns"})
    for (const GemmShape& shape : {GemmShape{768, 768, 16384}, GemmShape{128, 128, 100},
                                   GemmShape{3000, 5000, 700}, GemmShape{300, 100, 1000, 7}}) {
      const GemmForced forced = GemmForced::parse(message("wgmma,streamk,", tile));
      const GemmChoice choice = chooseGemm(shape, kAll, kHopper, forced);
      const GemmTiles tiles = tilesOf(shape, choice);
      ASSERT_GT(choice.workers, 1);
      EXPECT_LE(choice.workers, 132 / choice.cluster);
      EXPECT_EQ(choice.splits, 1);
      EXPECT_LT((choice.workers - 1) * tiles.stepsOfWorker, tiles.units * tiles.steps);
      EXPECT_GE(choice.workers * tiles.stepsOfWorker, tiles.units * tiles.steps);
      EXPECT_EQ(chooseGemm(shape, kAll, kHopper, GemmForced::parse(wordsOf(choice))), choice);
    }
  const auto workers = [](const GemmShape& shape, const GemmAllowed& allowed) {
    return chooseGemm(shape, allowed, kHopper, GemmForced::parse("streamk")).workers;
  };
  EXPECT_EQ(workers({768, 768, 16384}, kFloats), 0);
  EXPECT_EQ(workers({768, 768, 16384}, {.mma = true}), 0);
  EXPECT_EQ(workers({1 << 24, 1 << 24, 1 << 24}, kAll), 0);  // more steps than are counted
  EXPECT_EQ(chooseGemm({768, 768, 16384}, kAll, kHopper).workers, 0);
}

TEST(GemmChoice, IsForcedByWords) {
  const GemmShape shape{4096, 4096, 4096};
  const auto forced = [&](const char* text, const GemmAllowed& allowed = kAll,
                          const GemmChip& chip = kHopper) {
    return chooseGemm(shape, allowed, chip, GemmForced::parse(text));
  };
  EXPECT_EQ(forced("reference").family, GemmFamily::Reference);
  EXPECT_EQ(forced("mma").family, GemmFamily::Mma);
  EXPECT_EQ(forced("wgmma,together,columns=128,cluster=1,splits=3"),
            (GemmChoice{GemmFamily::Wgmma, GemmSchedule::Together, 128, 1, 3}));
  EXPECT_EQ(forced("turns").schedule, GemmSchedule::InTurn);
  EXPECT_EQ(forced("splits=2,cluster=2").cluster, 2);
  EXPECT_EQ(forced("").family, GemmFamily::Wgmma);
  EXPECT_EQ(forced("wgmma", {.mma = true}).family, GemmFamily::Mma);
  EXPECT_EQ(forced("wgmma", kAll, kAmpere).family, GemmFamily::Mma);
  EXPECT_EQ(forced("wgmma", kAll, {.processors = 148, .capability = 100}).family, GemmFamily::Mma);
  EXPECT_EQ(forced("mma", kAll, {.processors = 40, .capability = 75}).family,
            GemmFamily::Reference);
  EXPECT_EQ(forced("mma", {}).family, GemmFamily::Reference);
  for (const char* const other : {"", "mma", "wgmma"})
    EXPECT_EQ(forced(other, kFloats).family, GemmFamily::Simt);
  EXPECT_EQ(forced("reference", kFloats).family, GemmFamily::Reference);
  EXPECT_EQ(forced("reference,tf32", kFloats).family, GemmFamily::Reference);
  EXPECT_EQ(forced("tf32", kFloats).family, GemmFamily::Tf32);
  EXPECT_EQ(forced("tf32", kFloats, {.processors = 40, .capability = 75}).family, GemmFamily::Simt);
  EXPECT_EQ(forced("tf32").family, GemmFamily::Wgmma);
  for (const char* const wrong :
       {"cublas", "columns", "columns=", "columns=x", "splits=0", "splits=5000", "columns=32",
        "cluster=4", "wgmma,,mma", "turns,columns=256", "streamk,splits=2", "streamk=2"})
    EXPECT_THROW(forced(wrong), Error) << wrong;
}

TEST(GemmChoice, IsSaidInWordsThatForceIt) {
  const GemmShape shape{512, 512, 4096};
  for (const GemmTile& tile : gemmTiles()) {
    const bool isFloat = tile.family == GemmFamily::Simt || tile.family == GemmFamily::Tf32;
    const GemmChoice choice{tile.family, tile.schedule, tile.columns, tile.cluster, 4};
    EXPECT_EQ(
        chooseGemm(shape, isFloat ? kFloats : kAll, kHopper, GemmForced::parse(wordsOf(choice))),
        choice)
        << wordsOf(choice);
  }
  EXPECT_EQ(GemmForced::parse(wordsOf({})).family, GemmFamily::Reference);
}

GemmProduct productOf(int32_t rows, bool isKMajorA, bool isKMajorB) {
  const DeviceMatrix matrix{{reinterpret_cast<void*>(256), ElementFormat::BFloat16}, 4096};
  return {.a = matrix,
          .b = matrix,
          .c = matrix,
          .rows = rows,
          .columns = 768,
          .depth = 3072,
          .isKMajorA = isKMajorA,
          .isKMajorB = isKMajorB,
          .accumulate = false};
}

/// The output map of GPT-2 over 16384 tokens: forward, dgrad and wgrad.
struct HeadProducts {
  GemmProduct forward, dataGradient, weightGradient;
};
HeadProducts headOf(int32_t vocabulary, int64_t logitStride) {
  constexpr int32_t kTokens = 16384, kWidth = 768;
  const auto matrix = [](int64_t stride) {
    return DeviceMatrix{{reinterpret_cast<void*>(256), ElementFormat::BFloat16}, stride};
  };
  const DeviceMatrix x = matrix(kWidth), weight = matrix(kWidth), logits = matrix(logitStride);
  const auto product = [](const DeviceMatrix& a, const DeviceMatrix& b, const DeviceMatrix& c,
                          const GemmShape& shape, bool isKMajorA, bool isKMajorB) {
    return GemmProduct{.a = a,
                       .b = b,
                       .c = c,
                       .rows = static_cast<int32_t>(shape.rows),
                       .columns = static_cast<int32_t>(shape.columns),
                       .depth = static_cast<int32_t>(shape.depth),
                       .isKMajorA = isKMajorA,
                       .isKMajorB = isKMajorB,
                       .accumulate = false};
  };
  return {product(x, weight, logits, {kTokens, vocabulary, kWidth}, true, true),
          product(logits, weight, x, {kTokens, kWidth, vocabulary}, true, false),
          product(logits, x, weight, {vocabulary, kWidth, kTokens}, false, false)};
}

// Rows of 50257 logits without gaps do not begin at 16 bytes, where TMA takes them: both gradients
// read them, and go to mma, which fills the chip, too. What only writes them does not, nor do rows
// of 50304, nor 50257 with gaps of 7 behind them, which a model's logits have.
TEST(GemmChoice, OfTheHeadIsOfHowItsRowsLie) {
  const Gemms gemms(kHopper, {});
  Arena arena("logits", {.dry = true});
  const Tensor logits = arena.allocateRows(DType::BFloat16, {16, 1024, 50257});
  const HeadProducts odd = headOf(50257, 50257), even = headOf(50304, 50304),
                     padded = headOf(50257, *logits.rowStride());
  for (const GemmProduct* x :
       {&odd.forward, &even.forward, &even.dataGradient, &even.weightGradient, &padded.forward,
        &padded.dataGradient, &padded.weightGradient})
    EXPECT_EQ(gemms.choose(*x).family, GemmFamily::Wgmma) << x->rows << " " << x->columns;
  for (const GemmProduct* x : {&odd.dataGradient, &odd.weightGradient}) {
    EXPECT_EQ(gemms.choose(*x).family, GemmFamily::Mma) << x->rows << " " << x->columns;
    EXPECT_EQ(gemms.choose(*x).splits, 1);
  }
  for (const GemmProduct* x :
       {&odd.forward, &odd.dataGradient, &odd.weightGradient, &even.forward, &even.dataGradient,
        &even.weightGradient, &padded.forward, &padded.dataGradient, &padded.weightGradient}) {
    // Of mma a product is as long as its tensor cores need, which are taken for slower ones.
    const GemmShape shape{x->rows, x->columns, x->depth};
    EXPECT_GT(shareOfPeak(shape, gemms.choose(*x), kHopper), 0.7) << x->rows << " " << x->columns;
  }
}

TEST(GemmTable, IsWhatIsChosenUnlessItIsForced) {
  const GemmChoice mma{GemmFamily::Mma, GemmSchedule::Together, 128, 1, 3};
  const std::string text = "# measured\n\n" + lineOf({4096, 768, 3072, false, true, 16, 16}, mma) +
                           "  # 1 TFLOP/s\n4096 768 3072 tn 16 reference\n";
  const GemmTable table = GemmTable::parse(text);
  EXPECT_EQ(table.size(), 2u);
  const Gemms gemms(kHopper, {.forced = {}, .table = table});
  EXPECT_EQ(gemms.choose(productOf(4096, true, true)), mma);
  EXPECT_EQ(gemms.choose(productOf(4096, false, false)).family, GemmFamily::Reference);
  EXPECT_EQ(gemms.choose(productOf(4096, true, false)).family, GemmFamily::Wgmma);
  EXPECT_EQ(gemms.choose(productOf(4097, true, true)).family, GemmFamily::Wgmma);
  GemmProduct toFloat = productOf(4096, true, true);
  toFloat.c.elements.format = ElementFormat::Float32;
  EXPECT_EQ(gemms.choose(toFloat).family, GemmFamily::Wgmma);
  GemmProduct floats = productOf(4096, true, true);
  floats.a.elements.format = floats.b.elements.format = ElementFormat::Float32;
  EXPECT_EQ(gemms.choose(floats).family, GemmFamily::Simt);
  EXPECT_EQ(gemms.choose(floats).splits, Gemms(kHopper, {}).choose(floats).splits);
  // Of single products: what a batch of them is best computed by was not measured.
  GemmProduct products = productOf(4096, true, true);
  products.batch = 3;
  products.batchStrideA = products.batchStrideB = products.strides.c = int64_t{4096} * 4096;
  EXPECT_EQ(gemms.choose(products), Gemms(kHopper, {}).choose(products));
  EXPECT_EQ(gemms.choose(products).family, GemmFamily::Wgmma);
  const Gemms forced(kHopper, {.forced = GemmForced::parse("wgmma"), .table = table});
  EXPECT_EQ(forced.choose(productOf(4096, true, true)).family, GemmFamily::Wgmma);
}

// Sums in float32 of operands of 16 bits have lines of their own, whether they are added to or not.
TEST(GemmTable, TellsResultsOfFloat32Apart) {
  const GemmChoice mma{GemmFamily::Mma, GemmSchedule::Together, 128, 1, 3},
      simt{GemmFamily::Simt, GemmSchedule::Together, 128, 1, 2};
  const std::string line = lineOf({4096, 768, 3072, true, false, 16, 32}, mma);
  EXPECT_EQ(line, "4096 768 3072 tn 16to32 mma,splits=3");
  const std::string ofFloats = lineOf({4096, 768, 3072, true, false, 32, 32}, simt);
  EXPECT_EQ(ofFloats, "4096 768 3072 tn 32 columns=128,splits=2");
  const GemmTable table =
      GemmTable::parse(line + "\n" + ofFloats + "\n4096 768 3072 tn 16 reference\n");
  EXPECT_EQ(table.size(), 3u);
  const Gemms gemms(kHopper, {.forced = {}, .table = table});
  GemmProduct product = productOf(4096, false, false);
  EXPECT_EQ(gemms.choose(product).family, GemmFamily::Reference);
  product.accumulate = true;
  EXPECT_EQ(gemms.choose(product).family, GemmFamily::Reference);
  product.c.elements.format = ElementFormat::Float32;
  EXPECT_EQ(gemms.choose(product), mma);
  product.accumulate = false;
  EXPECT_EQ(gemms.choose(product), mma);
  product.a.elements.format = product.b.elements.format = ElementFormat::Float32;
  EXPECT_EQ(gemms.choose(product), simt);
}

TEST(GemmTable, RefusesWhatItDoesNotUnderstand) {
  const std::string good = "1 2 3 nt 16 mma\n# more\n";
  for (const char* const wrong : {"4096", "1 2 3 nt 16", "1 2 3 nt mma", "1 2 3 ab 16 mma",
                                  "1 2 x nt 16 mma", "1 2 3 nt 16 fast", "1 2 3 nt 16 mma more",
                                  "1 2 3 nt 8 mma", "1 2 3 nt 32to16 mma", "1 2 3 nt 16to mma"}) {
    try {
      GemmTable::parse(good + wrong, "some/file");
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      const std::string text = error.what(),
                        begin = std::string("some/file:3: \"") + wrong + "\": ";
      EXPECT_NE(text.find(begin), std::string::npos) << text;
    }
  }
  EXPECT_EQ(GemmTable::parse(good).size(), 1u);
  EXPECT_THROW(GemmTable::load("/nowhere/at all"), Error);
  EXPECT_THROW(GemmTable::load("/"), Error);
  EXPECT_THROW(GemmTable::load("/dev/zero"), Error) << "it has no end";
}

// Every choice has a kernel of its own for each type and layout, however many blocks share its b;
// and no more blocks than there are multiprocessors, however many units.
TEST(GemmLaunches, AreOfTheChosenKernel) {
  constexpr GemmChip kChip{.processors = 6, .capability = 90};
  emulation::check(loadWgmma());
  const emulation::DeviceArray<char> memory(size_t{1} << 22);
  std::map<const void*, std::string> kernels;
  for (const GemmTile& tile : gemmTiles()) {
    if (tile.family != GemmFamily::Wgmma) continue;
    GemmChoice wanted{tile.family, tile.schedule, tile.columns, tile.cluster, 1};
    for (const ElementFormat format : {ElementFormat::BFloat16, ElementFormat::Float16})
      for (const bool isKMajorA : {false, true})
        for (const bool isKMajorB : {false, true}) {
          const DeviceMatrix matrix{{memory.get(), format}, 1024};
          GemmProduct x{.a = matrix,
                        .b = matrix,
                        .c = {{memory.get(), ElementFormat::Float32}, 1024},
                        .rows = 1000,
                        .columns = 1000,
                        .depth = 1000,
                        .isKMajorA = isKMajorA,
                        .isKMajorB = isKMajorB};
          Gemms gemms(kChip, {.forced = GemmForced::parse(wordsOf(wanted)), .table = {}});
          const GemmChoice choice = gemms.choose(x);
          const auto launched = tests::kernelsOf(
              [&](cudaStream_t stream) { return gemms.enqueue(x, choice, {}, stream); });
          ASSERT_EQ(launched.size(), 1u);
          EXPECT_EQ(launched[0].blocks, kChip.processors) << wordsOf(wanted);
          GemmChoice alone = wanted;
          alone.cluster = 1;
          const std::string name =
              message(wordsOf(alone), static_cast<int>(format), isKMajorA, isKMajorB);
          EXPECT_EQ(kernels.emplace(launched[0].function, name).first->second, name);
        }
  }
  EXPECT_EQ(kernels.size(), 40u);
}

}  // namespace
}  // namespace tutti::parallel::cuda
