// Norms' backward that leaves sums of slices of the rows, and what adds these up: exactly where
// numbers are such that nothing is rounded, else against float64; of slices that are full, short,
// of one row, and whose rows not all warps have one of.

#include <algorithm>
#include <cmath>

#include "tests/parallel/kernels/cuda/vectorized/pool.h"
#include "tests/parallel/kernels/cuda/vectorized/some_cases.h"

namespace tutti::parallel::cuda {
namespace {

constexpr double kUnit = 0x1p-24;  // of rounding to float32

/// `sliceRows` as the kernel takes any, so that wide rows need not be many.
struct Size {
  int32_t rows, sliceRows, width;
  RowSlices slices() const { return {(rows + sliceRows - 1) / sliceRows, sliceRows}; }
};
// Of each shape, a run of a thread and four of a warp, a block and a wide block: its widest rows
// and narrower ones; one row, fewer than a block's warps, a slice and a row, and several slices.
constexpr Size kSizes[] = {{1, 16, 8},    {3, 16, 256},  {37, 16, 248}, {33, 16, 264},
                           {21, 8, 1024}, {1, 16, 1032}, {11, 5, 1032}, {6, 4, 4096},
                           {7, 3, 4104},  {5, 4, 8192},  {16, 16, 64}};

struct Case {
  Size size;
  Formats formats;
  bool centered, adds, accumulate;
};

double roundingOf(ElementFormat format) {
  return format == ElementFormat::BFloat16  ? 0x1p-8
         : format == ElementFormat::Float16 ? 0x1p-11
                                            : kUnit;
}
double roundedTo(ElementFormat format, double value) {
  return numberOf(bitsOf(value, format), format);
}

/// A norm's backward, and the gradients of its weights.
struct Backward {
  SlicedNormBackward norm;
  SumsOfNorms weights;
  Elements sums;  ///< of the norm
  int64_t count() const { return int64_t{norm.of.rows} * norm.of.width; }
  int64_t sumCount() const {
    return int64_t{norm.of.mean.data == nullptr ? 1 : 2} * norm.slices.count * norm.of.width;
  }
};

Backward backwardOf(Pool& pool, const Case& c) {
  const auto& [size, formats, centered, adds, accumulate] = c;
  const Rows all{size.rows, size.width, size.width}, one{1, size.width, size.width},
      numbers{1, size.rows, size.rows};
  Backward x;
  x.norm.of = {.dy = pool.random(all, formats.kept),
               .x = pool.random(all, formats.elements),
               .weight = pool.random(one, formats.kept),
               .mean = centered ? pool.random(numbers, ElementFormat::Float32) : Elements{},
               .rstd = pool.random(numbers, ElementFormat::Float32, {0.25, 2}),
               .residual = adds ? pool.random(all, formats.elements) : Elements{},
               .dx = pool.result(all, formats.elements),
               .rows = size.rows,
               .width = size.width};
  x.norm.slices = size.slices();
  x.sums = pool.result({1, x.sumCount(), x.sumCount()}, ElementFormat::Float32);
  x.norm.sums = static_cast<float*>(x.sums.data);
  SlicedSums& weights = x.weights.of;
  weights.sums = accumulate ? pool.random(one, formats.kept) : pool.result(one, formats.kept);
  weights.sumsOfDy = centered ? pool.random(one, ElementFormat::Float32) : Elements{};
  weights.partial = x.norm.sums;
  weights.width = size.width;
  weights.slices = x.norm.slices;
  weights.accumulate = accumulate, weights.accumulateOfDy = !accumulate;
  return x;
}

template <class Test>
void forAll(const Test& test) {
  SomeCases cases;
  bool adds = false, accumulate = false;  // each kernel with both, by sizes of one shape
  for (const Size& size : kSizes) {
    adds = !adds, accumulate = accumulate != adds;
    for (const Formats& formats : kAllFormats)
      for (const bool centered : {false, true}) {
        if (!cases.takeNext()) continue;
        const Case c{size, formats, centered, adds != centered, accumulate};
        SCOPED_TRACE(std::to_string(size.rows) + " rows of " + std::to_string(size.width) +
                     ", slices of " + std::to_string(size.sliceRows) + ", " +
                     nameOf(formats.elements) + " and " + nameOf(formats.kept) +
                     (centered ? ", centered" : "") + (c.adds ? ", with a residual" : ""));
        Pool pool;
        test(pool, backwardOf(pool, c));
      }
  }
}

/// What both leave; nothing but results is written.
std::vector<char> resultsOf(Pool& pool, const Backward& x) {
  EXPECT_NE(runOf(x.norm.of), 0);
  const auto both = [&](MemoryBoundFamily family) {
    if (family == MemoryBoundFamily::Reference) return cudaSuccess;
    const cudaError_t error = enqueue(x.norm, nullptr);
    return error == cudaSuccess ? enqueue(x.weights, nullptr) : error;
  };
  std::vector<char> bytes = pool.compute(both).vectorized, others = bytes;
  pool.erase(others, x.norm.of.dx, x.count());
  pool.erase(others, x.sums, x.sumCount());
  for (const Elements& each : {x.weights.of.sums, x.weights.of.sumsOfDy})
    if (each.data != nullptr) pool.erase(others, each, x.norm.of.width);
  EXPECT_TRUE(others == pool.image()) << "writes beside its results";
  return bytes;
}

/// Of some rows of a column in float64: the sum, and the sum of sizes.
struct Expected {
  double sum = 0, size = 0;
};
Expected expectedOf(const Pool& pool, const NormBackward& x, bool ofDy, int64_t column,
                    int64_t first, int64_t end) {
  const auto in = [&](const Elements& of, int64_t i) {
    return of.data == nullptr ? 0 : pool.numberIn(pool.image(), of, i);
  };
  Expected expected;
  for (int64_t row = first; row < std::min<int64_t>(end, x.rows); ++row) {
    const int64_t i = row * x.width + column;
    const double dy = in(x.dy, i);
    const double term = ofDy ? dy : dy * (in(x.x, i) - in(x.mean, row)) * in(x.rstd, row);
    expected.sum += term, expected.size += std::abs(term);
  }
  return expected;
}

/// visit(a slice's sum, expected) for all of them, and of a column visit(result, its format, what
/// was there, expected).
template <class OfSlice, class OfColumn>
void forSums(Pool& pool, const Backward& x, const std::vector<char>& got, const OfSlice& ofSlice,
             const OfColumn& ofColumn) {
  const NormBackward& norm = x.norm.of;
  const RowSlices& slices = x.norm.slices;
  for (const bool ofDy : {false, true}) {
    const SlicedSums& all = x.weights.of;
    const Elements& result = ofDy ? all.sumsOfDy : all.sums;
    if (result.data == nullptr) continue;
    for (int64_t c = 0; c < norm.width; ++c) {
      for (int64_t slice = 0; slice < slices.count; ++slice)
        ofSlice(pool.numberIn(got, x.sums, (int64_t{ofDy} * slices.count + slice) * norm.width + c),
                expectedOf(pool, norm, ofDy, c, slice * slices.rows, (slice + 1) * slices.rows));
      const bool adds = (ofDy ? all.accumulateOfDy : all.accumulate) != 0;
      ofColumn(pool.numberIn(got, result, c), result.format,
               adds ? pool.numberIn(pool.image(), result, c) : 0,
               expectedOf(pool, norm, ofDy, c, 0, norm.rows));
    }
  }
}

/// From -3 to 3.
double small(int64_t i) { return static_cast<double>(i * 5 % 7 - 3); }

// Sums of integers and of halves of them.
TEST(NormSlices, SumsAreExact) {
  forAll([](Pool& pool, const Backward& x) {
    const NormBackward& norm = x.norm.of;
    for (int64_t i = 0; i < x.count(); ++i) {
      pool.set(norm.dy, i, small(i));
      pool.set(norm.x, i, small(i / 3));
    }
    for (int64_t row = 0; row < norm.rows; ++row) {
      if (norm.mean.data != nullptr) pool.set(norm.mean, row, small(row) + 1);
      pool.set(norm.rstd, row, row % 3 == 0 ? 1 : 0.5);
    }
    for (int64_t c = 0; c < norm.width; ++c) {
      if (x.weights.of.accumulate != 0) pool.set(x.weights.of.sums, c, small(c));
      if (norm.mean.data != nullptr) pool.set(x.weights.of.sumsOfDy, c, small(c + 1));
    }
    forSums(
        pool, x, resultsOf(pool, x),
        [](double sum, const Expected& expected) { ASSERT_EQ(sum, expected.sum); },
        [](double sum, ElementFormat format, double before, const Expected& expected) {
          ASSERT_EQ(sum, roundedTo(format, before + expected.sum));
        });
  });
}

// A summand is rounded 3 times. It goes through as many additions as a slice has rows, 16 here at
// most, 3 of warps, then one of a thread's slices, 31 of these, and the one to what was there.
TEST(NormSlices, SumsAreNearFloat64) {
  forAll([](Pool& pool, const Backward& x) {
    constexpr double kOfSlice = (3 + 16 + 3) * kUnit, kOfAll = kOfSlice + 33 * kUnit;
    forSums(
        pool, x, resultsOf(pool, x),
        [](double sum, const Expected& expected) {
          ASSERT_NEAR(sum, expected.sum, kOfSlice * expected.size);
        },
        [](double sum, ElementFormat format, double before, const Expected& expected) {
          const double all = before + expected.sum;
          ASSERT_NEAR(sum, all,
                      kOfAll * expected.size + kUnit * std::abs(before) +
                          1.01 * roundingOf(format) * std::abs(all));
        });
  });
}

// Whether sums are left changes no bit of the gradient of the input.
TEST(NormSlices, GradientIsThatWithoutSums) {
  forAll([](Pool& pool, const Backward& x) {
    const std::vector<char> with = resultsOf(pool, x);
    const auto alone = pool.compute([&](MemoryBoundFamily family) {
      return enqueue(ChosenMemoryBound{family, x.norm.of}, false, nullptr);
    });
    for (int64_t i = 0; i < x.count(); ++i)
      ASSERT_EQ(pool.numberIn(with, x.norm.of.dx, i),
                pool.numberIn(alone.vectorized, x.norm.of.dx, i))
          << i;
  });
}

// Sums of numbers of 16 bits have the bits that they have of the same numbers in float32.
TEST(NormSlices, SumsAreThoseOfFloat32) {
  constexpr Formats kFloats{ElementFormat::Float32, ElementFormat::Float32};
  SomeCases cases;
  for (const Size& size : kSizes)
    for (const ElementFormat format : {ElementFormat::BFloat16, ElementFormat::Float16})
      for (const bool centered : {false, true}) {
        if (!cases.takeNext()) continue;
        SCOPED_TRACE(std::to_string(size.rows) + " rows of " + std::to_string(size.width));
        Pool pool, other;
        const Case narrow{size, {format, format}, centered, true, false},
            wide{size, kFloats, centered, true, false};
        const Backward x = backwardOf(pool, narrow), y = backwardOf(other, wide);
        const auto same = [&](const Elements& from, const Elements& to, int64_t count) {
          for (int64_t i = 0; from.data != nullptr && i < count; ++i)
            other.set(to, i, pool.numberIn(pool.image(), from, i));
        };
        same(x.norm.of.dy, y.norm.of.dy, x.count());
        same(x.norm.of.x, y.norm.of.x, x.count());
        same(x.norm.of.mean, y.norm.of.mean, size.rows);
        same(x.norm.of.rstd, y.norm.of.rstd, size.rows);
        const std::vector<char> one = resultsOf(pool, x), two = resultsOf(other, y);
        for (int64_t i = 0; i < x.sumCount(); ++i)
          ASSERT_EQ(pool.numberIn(one, x.sums, i), other.numberIn(two, y.sums, i)) << i;
        for (int64_t c = 0; c < size.width; ++c)
          ASSERT_EQ(pool.numberIn(one, x.weights.of.sums, c),
                    roundedTo(format, other.numberIn(two, y.weights.of.sums, c)))
              << c;
      }
}

// Of as many slices as there may be, and as threads do not share evenly. An eighth of numbers that
// are rounded nowhere.
TEST(NormSlices, AreAddedUp) {
  for (const int32_t count : {1, 2, 31, 32, 33, 255, 256, 257, kMostNormSlices})
    for (const int32_t width : {8, 40})
      for (const bool both : {false, true})
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(std::to_string(count) + " slices of " + std::to_string(width));
          Pool pool;
          const int64_t numbers = int64_t{both ? 2 : 1} * count * width;
          const Elements partial = pool.result({1, numbers, numbers}, ElementFormat::Float32);
          for (int64_t i = 0; i < numbers; ++i) pool.set(partial, i, small(i / 3) / 8);
          const Rows one{1, width, width};
          SumsOfNorms x{};
          x.of.sums = pool.random(one, ElementFormat::Float32, {1, 1});
          x.of.sumsOfDy = both ? pool.random(one, ElementFormat::Float32, {2, 2}) : Elements{};
          x.of.partial = static_cast<float*>(partial.data);
          x.of.width = width, x.of.slices = {count, kNormSliceRows};
          x.of.accumulate = accumulate, x.of.accumulateOfDy = !accumulate;
          const std::vector<char> got =
              pool.compute([&](MemoryBoundFamily) { return enqueue(x, nullptr); }).vectorized;
          for (int64_t c = 0; c < width; ++c) {
            double sums[2] = {accumulate ? 1.0 : 0.0, accumulate ? 0.0 : 2.0};
            for (int64_t i = c; i < numbers; i += width)
              sums[i / (int64_t{count} * width)] += small(i / 3) / 8;
            ASSERT_EQ(pool.numberIn(got, x.of.sums, c), sums[0]) << c;
            if (both) {
              ASSERT_EQ(pool.numberIn(got, x.of.sumsOfDy, c), sums[1]) << c;
            }
          }
        }
}

TEST(NormSlices, CoverAllRows) {
  EXPECT_EQ(normSlicesOf(0).count, 0);
  for (const int64_t rows : {1, 15, 16, 17, 16383, 16384, 16385, 16389, 1'000'000, (1 << 30) - 1}) {
    const RowSlices slices = normSlicesOf(rows);
    EXPECT_GE(slices.rows, kNormSliceRows) << rows;
    EXPECT_EQ(slices.rows % 4, 0) << rows;
    EXPECT_LE(slices.count, kMostNormSlices) << rows;
    EXPECT_GE(int64_t{slices.count} * slices.rows, rows);
    EXPECT_LT(int64_t{slices.count - 1} * slices.rows, rows) << "a slice has no rows";
  }
  EXPECT_EQ(normSlicesOf(1).count, 1);
  EXPECT_EQ(normSlicesOf(17).count, 2);
  EXPECT_EQ(normSlicesOf(16384).count, 1024);
  EXPECT_EQ(normSlicesOf(16385).rows, 20);
}

}  // namespace
}  // namespace tutti::parallel::cuda
