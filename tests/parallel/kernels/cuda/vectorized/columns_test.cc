// Sums over rows of each column: exactly where numbers are such that nothing is rounded, else
// against float64; of rows that fill no thread, one slice, several, and more than there are slices.

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>

#include "tests/parallel/kernels/cuda/vectorized/column_sums.h"

namespace tutti::parallel::cuda {
namespace {

constexpr double kUnit = 0x1p-24;  // of rounding to float32

// A block's columns are 32 or 64. 8300 rows are more than 64 slices of 128.
constexpr Size kSizes[] = {{1, 8},    {5, 72},    {33, 64},   {128, 264},
                           {129, 16}, {300, 136}, {1000, 64}, {8300, 8}};
constexpr Sums kAllSums[] = {Sums::OfDy, Sums::Products, Sums::Both};
double roundingOf(ElementFormat format) {
  return format == ElementFormat::BFloat16  ? 0x1p-8
         : format == ElementFormat::Float16 ? 0x1p-11
                                            : kUnit;
}
double roundedTo(ElementFormat format, double value) {
  return numberOf(bitsOf(value, format), format);
}

template <class Test>
void forAll(const Test& test) {
  for (const Size& size : kSizes)
    for (const Formats& formats : kAllFormats)
      for (const Sums sums : kAllSums)
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(std::string(nameOf(sums)) + " of " + std::to_string(size.rows) +
                       " rows of " + std::to_string(size.width) + ", " + nameOf(formats.elements) +
                       " and " + nameOf(formats.kept) + (accumulate ? ", added" : ""));
          Pool pool;
          test(pool, sumsOf(pool, sums, size, formats, accumulate, sums == Sums::OfDy ? 16 : 0));
        }
}

/// What vectors compute; nothing but sums and scratch is written.
std::vector<char> byVectors(Pool& pool, const ColumnSums& x) {
  EXPECT_NE(runOf(x), 0);
  std::vector<char> bytes =
      pool.compute([&](MemoryBoundFamily f) { return start(f, x); }).vectorized;
  std::vector<char> others = bytes;
  for (const Elements& each : {x.sums, x.sumsOfDy})
    if (each.data != nullptr) pool.erase(others, each, x.width);
  EXPECT_TRUE(others == pool.image()) << "writes beside its results";
  return bytes;
}

/// Of a column in float64: what was there, the sum, and the sum of sizes.
struct Expected {
  double before = 0, sum = 0, sizes = 0;
  double value() const { return before + sum; }
};
struct Reference {
  Pool& pool;
  const ColumnSums& x;
  double in(const Elements& of, int64_t i) const {
    return of.data == nullptr ? 0 : pool.numberIn(pool.image(), of, i);
  }
  double dy(int64_t row, int64_t c) const { return in(x.dy.elements, row * x.dy.stride + c); }
  double product(int64_t row, int64_t c) const {
    return dy(row, c) * (in(x.x, row * x.width + c) - in(x.mean, row)) * in(x.rstd, row);
  }
};

Expected expectedOf(const Reference& reference, int64_t column, bool ofDy) {
  const ColumnSums& x = reference.x;
  Expected expected;
  if ((ofDy ? x.accumulateOfDy : x.accumulate) != 0)
    expected.before = reference.in(ofDy ? x.sumsOfDy : x.sums, column);
  for (int64_t row = 0; row < x.rows; ++row) {
    const double term =
        ofDy || x.x.data == nullptr ? reference.dy(row, column) : reference.product(row, column);
    expected.sum += term, expected.sizes += std::abs(term);
  }
  return expected;
}

/// Calls visit(column, result, format, expected) for all sums.
template <class Visit>
void forResults(Pool& pool, const ColumnSums& x, const std::vector<char>& got, const Visit& visit) {
  const Reference reference{pool, x};
  for (const bool ofDy : {false, true}) {
    const Elements& result = ofDy ? x.sumsOfDy : x.sums;
    if (result.data == nullptr) continue;
    for (int64_t c = 0; c < x.width; ++c)
      visit(c, pool.numberIn(got, result, c), result.format, expectedOf(reference, c, ofDy));
  }
}

/// From -3 to 3.
double small(int64_t i) { return static_cast<double>(i * 5 % 7 - 3); }

// Sums of integers and of halves of them.
TEST(VectorizedColumns, SumsAreExact) {
  forAll([](Pool& pool, const ColumnSums& x) {
    for (int64_t row = 0; row < x.rows; ++row) {
      for (int64_t c = 0; c < x.width; ++c) {
        pool.set(x.dy.elements, row * x.dy.stride + c, small(row * x.width + c));
        if (x.x.data != nullptr) pool.set(x.x, row * x.width + c, small(row / 3 + c));
      }
      if (x.mean.data != nullptr) pool.set(x.mean, row, small(row / 5));
      if (x.rstd.data != nullptr) pool.set(x.rstd, row, row % 2 == 0 ? 0.5 : 1);
    }
    for (int64_t c = 0; c < x.width; ++c) {
      if (x.accumulate != 0) pool.set(x.sums, c, small(c));
      if (x.sumsOfDy.data != nullptr) pool.set(x.sumsOfDy, c, small(c + 1));
    }
    const std::vector<char> got = byVectors(pool, x);
    forResults(pool, x, got,
               [](int64_t c, double sum, ElementFormat format, const Expected& expected) {
                 ASSERT_EQ(sum, roundedTo(format, expected.value())) << c;
               });
  });
}

// A summand is rounded 3 times. It goes through 8 additions of a thread, 2 of a warp, 8 of warps, 8
// of a thread's slices and 8 of theirs, and the one to what was there.
TEST(VectorizedColumns, SumsAreNearFloat64) {
  forAll([](Pool& pool, const ColumnSums& x) {
    const std::vector<char> got = byVectors(pool, x);
    forResults(pool, x, got,
               [](int64_t c, double sum, ElementFormat format, const Expected& expected) {
                 const double bound = (3 + 35) * kUnit * expected.sizes +
                                      kUnit * std::abs(expected.before) +
                                      1.01 * roundingOf(format) * std::abs(expected.value());
                 ASSERT_NEAR(sum, expected.value(), bound) << c;
               });
  });
}

// The order is that of rows alone: of a matrix's part, and of the same numbers in float32, sums
// have the same bits.
TEST(VectorizedColumns, SumsOfAPartAreThoseOfAll) {
  for (const int32_t rows : {100, 1000}) {
    Pool pool;
    const Size all{rows, 136}, part{rows, 64};
    const Formats brains{ElementFormat::BFloat16, ElementFormat::BFloat16},
        floats{ElementFormat::Float32, ElementFormat::Float32};
    ColumnSums narrow = sumsOf(pool, Sums::OfDy, all, brains, false),
               wide = sumsOf(pool, Sums::OfDy, all, floats, false),
               some = sumsOf(pool, Sums::OfDy, part, floats, false);
    narrow.sums = pool.result({1, all.width, all.width}, ElementFormat::Float32);
    for (int64_t i = 0; i < int64_t{rows} * all.width; ++i)
      pool.set(wide.dy.elements, i, pool.numberIn(pool.image(), narrow.dy.elements, i));
    some.dy = {{static_cast<float*>(wide.dy.elements.data) + 72, ElementFormat::Float32},
               all.width};
    const std::vector<char> one = byVectors(pool, narrow), other = byVectors(pool, wide),
                            third = byVectors(pool, some);
    for (int64_t c = 0; c < all.width; ++c) {
      const double sum = pool.numberIn(other, wide.sums, c);
      ASSERT_EQ(pool.numberIn(one, narrow.sums, c), sum) << c;
      if (c >= 72) {
        ASSERT_EQ(pool.numberIn(third, some.sums, c - 72), sum) << c;
      }
    }
  }
}

// Slices are of whole batches, cover all rows, and are at most kMostSlices.
TEST(VectorizedColumns, SlicesCoverAllRows) {
  for (const int32_t rows : {1, 127, 128, 129, 8191, 8192, 8193, 16384, 1'000'000, (1 << 30) - 1}) {
    const RowSlices slices = slicesOf(rows);
    EXPECT_EQ(slices.rows % kSliceRows, 0) << rows;
    EXPECT_LE(slices.count, kMostSlices) << rows;
    EXPECT_GE(int64_t{slices.count} * slices.rows, rows);
    EXPECT_LT(int64_t{slices.count - 1} * slices.rows, rows) << "a slice has no rows";
  }
  EXPECT_EQ(slicesOf(16384).count, 64);
  EXPECT_EQ(slicesOf(8192).count, 64);
  EXPECT_EQ(slicesOf(1024).count, 8);
}

// Memory and rows that do not begin at 16 bytes, and a width that no run divides.
TEST(VectorizedColumns, SumsOfOthersAreByTheReference) {
  struct Other {
    int32_t width, gap;
    int64_t shift;
  };
  for (const Other& other : {Other{264, 0, 1}, Other{13, 0, 0}, Other{264, 5, 0}})
    for (const Formats& formats : kAllFormats)
      for (const Sums sums : kAllSums) {
        if (sums != Sums::OfDy && other.gap != 0) continue;
        Pool pool;
        const ColumnSums x =
            sumsOf(pool, sums, {300, other.width}, formats, true, other.gap, other.shift);
        EXPECT_EQ(runOf(x), 0);
        EXPECT_EQ(x.partial, nullptr);
        pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); }, nameOf(sums));
      }
}

}  // namespace
}  // namespace tutti::parallel::cuda
