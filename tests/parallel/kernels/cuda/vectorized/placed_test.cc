// Rows that are looked up: embeddings and what is moved for experts, to the bit what the plain
// kernels give; products of rows, which are added up in another order, exactly of integers and
// within a bound of float64's.

#include <cmath>

#include "tests/parallel/kernels/cuda/vectorized/pool.h"

namespace tutti::parallel::cuda {
namespace {

constexpr int32_t kTokens = 7, kPlaces = 9;
/// Of a run, of a warp's runs and one more, of several blocks' rows, and no multiple of a run.
constexpr int32_t kWidths[] = {8, 264, 1024, 12, 13};

template <class Arguments>
cudaError_t start(MemoryBoundFamily family, const Arguments& x) {
  return enqueue(ChosenMemoryBound{family, x}, false, nullptr);
}

template <class Test>
void forAll(const Test& test) {
  for (const int32_t width : kWidths)
    for (const int64_t shift : {0, 1})
      for (const Formats& formats : kAllFormats) {
        SCOPED_TRACE("rows of " + std::to_string(width) + ", shifted by " + std::to_string(shift) +
                     ", " + nameOf(formats.elements) + " and " + nameOf(formats.kept));
        Pool pool;
        test(pool, width, shift, formats);
      }
}

/// What kernels of this folder take.
bool isTaken(int32_t width, int64_t shift, const Formats& formats) {
  return shift == 0 && width % (formats.elements == ElementFormat::Float32 ? 4 : 8) == 0;
}

// Ids of a part of a vocabulary and of others; without positions, by them in order, and by given
// ones, of which two are alike and one is not there.
TEST(PlacedRows, Embedding) {
  forAll([](Pool& pool, int32_t width, int64_t shift, const Formats& formats) {
    Embedding x{.tokenIds = pool.numbers({4, 9, 3, 6, 6, 2, 8}),
                .at = nullptr,
                .tokens = pool.random({5, width, width, shift}, formats.kept),
                .positions = {},
                .x = pool.result({kTokens, width, width, shift}, formats.elements),
                .part = {4, 5},
                .rows = kTokens,
                .context = kTokens,
                .width = width,
                .positionRows = 0};
    EXPECT_EQ(runOf(x) != 0, isTaken(width, shift, formats));
    pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); }, "tokens");
    x.positions = pool.random({8, width, width, shift}, formats.kept);
    x.positionRows = 8;
    pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); }, "positions");
    x.rows = 6, x.context = 3;
    pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); }, "sequences");
    x.at = pool.numbers({5, 8, 5});
    pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); }, "given positions");
  });
}

// Tables of 16 bits, and what is given in float32: two words of each run.
TEST(PlacedRows, EmbeddingInFloat32) {
  for (const ElementFormat format : {ElementFormat::BFloat16, ElementFormat::Float16})
    for (const int32_t width : {8, 264}) {
      SCOPED_TRACE("rows of " + std::to_string(width) + ", " + nameOf(format));
      Pool pool;
      Embedding x{.tokenIds = pool.numbers({4, 9, 3, 6, 6, 2, 8}),
                  .at = nullptr,
                  .tokens = pool.random({5, width, width}, format),
                  .positions = {},
                  .x = pool.result({kTokens, width, width}, ElementFormat::Float32),
                  .part = {4, 5},
                  .rows = kTokens,
                  .context = kTokens,
                  .width = width,
                  .positionRows = 0};
      EXPECT_EQ(runOf(x), 8);
      pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); }, "tokens");
      x.positions = pool.random({8, width, width}, format);
      x.positionRows = 8;
      pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); }, "positions");
    }
}

/// Of `choices` for each token: one dropped, one beyond what there is.
Placed placed(Pool& pool, int32_t choices, int32_t width, const Formats& formats, bool hasWeights) {
  std::vector<int32_t> places;
  for (int32_t i = 0; i < kTokens * choices; ++i) places.push_back(i * 4 % kPlaces);
  places[1] = -1;
  places.back() = kPlaces;
  return {.rows = {},
          .placed = {},
          .weights = hasWeights
                         ? pool.random({1, kTokens * choices, kTokens * choices}, formats.kept)
                         : Elements{},
          .places = pool.numbers(places),
          .count = kTokens * choices,
          .choices = choices,
          .width = width,
          .placedRows = kPlaces};
}

// Also of more choices than are under way at a time. Each place is one choice's.
TEST(PlacedRows, SpreadAndCombined) {
  forAll([](Pool& pool, int32_t width, int64_t shift, const Formats& formats) {
    for (const int32_t choices : {1, 2, 6})
      for (const bool hasWeights : {false, true}) {
        pool.reset();
        const Rows tokens{kTokens, width, width, shift}, places{kPlaces, width, width, shift};
        SpreadRows spread{placed(pool, choices, width, formats, hasWeights)};
        if (choices > 1) {  // few places: those of others are dropped
          std::vector<int32_t> all(static_cast<size_t>(kTokens * choices), -1);
          for (int32_t i = 0; i < kPlaces; ++i)
            all[static_cast<size_t>(i * 4 % (kTokens * choices))] = i;
          spread.places = pool.numbers(all);
        }
        spread.rows = pool.random(tokens, formats.elements);
        spread.placed = pool.result(places, formats.elements);
        EXPECT_EQ(runOf(spread) != 0, isTaken(width, shift, formats));
        pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, spread); },
                                 "spreadRows");
        CombineRows combine{placed(pool, choices, width, formats, hasWeights)};
        combine.count = kTokens;
        combine.placed = pool.random(places, formats.elements);
        combine.rows = pool.result(tokens, formats.elements);
        EXPECT_EQ(runOf(combine) != 0, isTaken(width, shift, formats));
        pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, combine); },
                                 "combineRows");
      }
  });
}

RowDots dotsOf(Pool& pool, int32_t width, int64_t shift, const Formats& formats) {
  RowDots x{placed(pool, 2, width, formats, false)};
  x.rows = pool.random({kTokens, width, width, shift}, formats.elements);
  x.placed = pool.random({kPlaces, width, width, shift}, formats.kept);
  x.weights = pool.result({1, x.count, x.count}, ElementFormat::Float32);
  return x;
}

/// What vectors compute; nothing but the products is written.
std::vector<char> products(Pool& pool, const RowDots& x) {
  const Pool::Results results = pool.compute([&](MemoryBoundFamily f) { return start(f, x); });
  std::vector<char> others = results.vectorized;
  pool.erase(others, x.weights, x.count);
  EXPECT_TRUE(others == pool.image()) << "writes beside its results";
  if (runOf(x) == 0) {
    EXPECT_TRUE(results.vectorized == results.reference);
  }
  return results.vectorized;
}

int32_t placeIn(int32_t choice) {
  return choice == 1 || choice == 2 * kTokens - 1 ? -1 : choice * 4 % kPlaces;
}

TEST(PlacedRows, DotsAreExactOfIntegers) {
  const auto number = [](int64_t i) { return static_cast<double>(i * 5 % 7 - 3); };
  forAll([&](Pool& pool, int32_t width, int64_t shift, const Formats& formats) {
    const RowDots x = dotsOf(pool, width, shift, formats);
    EXPECT_EQ(runOf(x) != 0, isTaken(width, shift, formats));
    for (int64_t i = 0; i < int64_t{kTokens} * width; ++i) pool.set(x.rows, i, number(i));
    for (int64_t i = 0; i < int64_t{kPlaces} * width; ++i) pool.set(x.placed, i, number(i / 2));
    const std::vector<char> got = products(pool, x);
    for (int32_t choice = 0; choice < x.count; ++choice) {
      double sum = 0;
      for (int64_t c = 0; c < width && placeIn(choice) >= 0; ++c)
        sum += number(int64_t{choice / 2} * width + c) *
               number((int64_t{placeIn(choice)} * width + c) / 2);
      EXPECT_EQ(pool.numberIn(got, x.weights, choice), sum) << choice;
    }
  });
}

// A product is rounded once, and then by each addition that it takes part in: those of its lane,
// which adds width / 32 numbers and as many as a run has, and five of the tree; of the reference
// kernel width / 128, five and three.
TEST(PlacedRows, DotsAreNearFloat64) {
  forAll([](Pool& pool, int32_t width, int64_t shift, const Formats& formats) {
    const RowDots x = dotsOf(pool, width, shift, formats);
    const std::vector<char> got = products(pool, x);
    const auto in = [&](const Elements& of, int64_t i) { return pool.numberIn(got, of, i); };
    for (int32_t choice = 0; choice < x.count; ++choice) {
      double sum = 0, sizes = 0;
      for (int64_t c = 0; c < width && placeIn(choice) >= 0; ++c) {
        const double product = in(x.rows, int64_t{choice / 2} * width + c) *
                               in(x.placed, int64_t{placeIn(choice)} * width + c);
        sum += product, sizes += std::abs(product);
      }
      const double roundings = 1 + width / 32.0 + 8 + 5;
      EXPECT_NEAR(in(x.weights, choice), sum, roundings * 0x1p-24 * sizes) << choice;
    }
  });
}

}  // namespace
}  // namespace tutti::parallel::cuda
