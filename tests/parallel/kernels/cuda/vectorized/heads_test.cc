// What attention does with rows of heads besides attention: merging, to the bit what the plain
// kernel gives, and products of two rows, exactly of integers and within a bound of float64's.

#include <cmath>
#include <limits>

#include "tests/parallel/kernels/cuda/vectorized/pool.h"

namespace tutti::parallel::cuda {
namespace {

constexpr int32_t kBatch = 2, kHeads = 3, kQueries = 5;
constexpr int32_t kScalars = kBatch * kHeads * kQueries;
/// One lane, all of a row's lanes and not all, of each number of lanes, and more than these;
/// no multiple of a run.
constexpr int32_t kWidths[] = {8, 64, 80, 96, 128, 256, 288, 12, 5};

template <class Arguments>
cudaError_t start(MemoryBoundFamily family, const Arguments& x) {
  return enqueue(ChosenMemoryBound{family, x}, false, nullptr);
}

AttentionSizes sizesOf(int32_t headWidth) {
  return {.batch = kBatch,
          .heads = kHeads,
          .kvHeads = kHeads,
          .headWidth = headWidth,
          .queries = kQueries,
          .keys = kQueries,
          .firstQuery = 0,
          .firstKey = 0,
          .scale = 1,
          .reach = {}};
}
/// Rows with a gap, and sequences with a row between them.
Rows layoutOf(int32_t headWidth, int64_t gap, int64_t shift) {
  const int64_t width = int64_t{kHeads} * headWidth;
  return {kBatch * (kQueries + 1), width, width + gap, shift};
}
HeadRows headRows(const Elements& x, const Rows& layout) {
  return {x, (kQueries + 1) * layout.stride, layout.stride};
}
HeadScalars scalars(const Elements& x) { return {x, kHeads * kQueries, kQueries}; }

struct Case {
  int32_t headWidth;
  Rows layout;
  Formats formats;
  bool isTaken;
};
template <class Test>
void forAll(const Test& test) {
  for (const int32_t width : kWidths)
    for (const Formats& formats : kAllFormats)
      for (const auto& [gap, shift] : {std::pair{0, 0}, {8, 0}, {1, 0}, {0, 1}}) {
        const int run = formats.elements == ElementFormat::Float32 ? 4 : 8;
        const Rows layout = layoutOf(width, gap, shift);
        const Case x{width, layout, formats,
                     shift == 0 && width % run == 0 && layout.stride % run == 0};
        SCOPED_TRACE("heads of " + std::to_string(width) + ", gaps of " + std::to_string(gap) +
                     ", shifted by " + std::to_string(shift) + ", " + nameOf(formats.elements) +
                     " and " + nameOf(formats.kept));
        Pool pool;
        test(pool, x);
      }
}

// Of rows some see keys on one side alone, and one on neither.
TEST(HeadRuns, Merge) {
  forAll([](Pool& pool, const Case& c) {
    const Rows numbers{1, kScalars, kScalars};
    const Elements own = pool.random(numbers, ElementFormat::Float32),
                   other = pool.random(numbers, ElementFormat::Float32);
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    for (const int64_t i : {0, 7, 29}) pool.set(own, i, kNone);
    for (const int64_t i : {3, 7, 28}) pool.set(other, i, kNone);
    const AttentionMerge x{.sizes = sizesOf(c.headWidth),
                           .part = headRows(pool.random(c.layout, c.formats.elements), c.layout),
                           .out = headRows(pool.random(c.layout, c.formats.kept), c.layout),
                           .partLogSumExp = scalars(other),
                           .logSumExp = scalars(own)};
    EXPECT_EQ(runOf(x) != 0, c.isTaken);
    pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); }, "attentionMerge");
  });
}

AttentionDots dotsOf(Pool& pool, const Case& c) {
  return {.sizes = sizesOf(c.headWidth),
          .dOut = headRows(pool.random(c.layout, c.formats.elements), c.layout),
          .out = headRows(pool.random(c.layout, c.formats.kept), c.layout),
          .dots = scalars(pool.result({1, kScalars, kScalars}, ElementFormat::Float32))};
}

/// Calls visit(number of a row of a head, where it begins).
template <class Visit>
void forRows(const Case& c, const Visit& visit) {
  for (int64_t i = 0; i < kScalars; ++i) {
    const int64_t row = i % kQueries, head = i / kQueries % kHeads, batch = i / kQueries / kHeads;
    visit(i, (batch * (kQueries + 1) + row) * c.layout.stride + head * c.headWidth);
  }
}

/// What vectors compute; nothing but the products is written.
std::vector<char> products(Pool& pool, const AttentionDots& x, const Case& c) {
  EXPECT_EQ(runOf(x) != 0, c.isTaken);
  const Pool::Results results = pool.compute([&](MemoryBoundFamily f) { return start(f, x); });
  std::vector<char> others = results.vectorized;
  pool.erase(others, x.dots.elements, kScalars);
  EXPECT_TRUE(others == pool.image()) << "writes beside its results";
  if (!c.isTaken) {
    EXPECT_TRUE(results.vectorized == results.reference);
  }
  return results.vectorized;
}

TEST(HeadRuns, DotsAreExactOfIntegers) {
  const auto number = [](int64_t i) { return static_cast<double>(i * 5 % 7 - 3); };
  forAll([&](Pool& pool, const Case& c) {
    const AttentionDots x = dotsOf(pool, c);
    forRows(c, [&](int64_t, int64_t first) {
      for (int64_t k = first; k < first + c.headWidth; ++k) {
        pool.set(x.dOut.elements, k, number(k));
        pool.set(x.out.elements, k, number(k / 3));
      }
    });
    const std::vector<char> got = products(pool, x, c);
    forRows(c, [&](int64_t i, int64_t first) {
      double sum = 0;
      for (int64_t k = first; k < first + c.headWidth; ++k) sum += number(k) * number(k / 3);
      EXPECT_EQ(pool.numberIn(got, x.dots.elements, i), sum) << i;
    });
  });
}

// A product is rounded once, and then by each addition that it takes part in: at most 16 of its
// lane, of a row of 288 by 32 lanes, and five of the tree. The reference kernel's lanes add nine.
TEST(HeadRuns, DotsAreNearFloat64) {
  forAll([](Pool& pool, const Case& c) {
    const AttentionDots x = dotsOf(pool, c);
    const std::vector<char> got = products(pool, x, c);
    forRows(c, [&](int64_t i, int64_t first) {
      double sum = 0, sizes = 0;
      for (int64_t k = first; k < first + c.headWidth; ++k) {
        const double product =
            pool.numberIn(got, x.dOut.elements, k) * pool.numberIn(got, x.out.elements, k);
        sum += product, sizes += std::abs(product);
      }
      EXPECT_NEAR(pool.numberIn(got, x.dots.elements, i), sum, (1 + 16 + 5) * 0x1p-24 * sizes) << i;
    });
  });
}

}  // namespace
}  // namespace tutti::parallel::cuda
