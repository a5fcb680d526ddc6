// The loss: exactly where exponentials are 1 or 0, else against float64; its gradient to the bit
// what the reference kernel computes; of a whole vocabulary in one launch what it is in two. Of
// rows that begin anywhere, and of rows with gaps between them, of one element and of several
// batches of a block. Gaps are NaN, which nothing may read, or write.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/parallel/kernels/cuda/vectorized/pool.h"
#include "tests/parallel/kernels/cuda/vectorized/some_cases.h"

namespace tutti::parallel::cuda {
namespace {

constexpr double kUnit = 0x1p-24;  // of rounding to float32
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// Of a block's threads.
constexpr int32_t kBatch = 8192;
/// No run, one, the edges of one; ragged; a batch and more.
constexpr int32_t kWidths[] = {1, 5, 8, 9, 15, 264, 1021, 1025, 2056, kBatch, kBatch + 9, 20'011};
constexpr int32_t kRows = 5;
constexpr ElementFormat kFormats[] = {ElementFormat::Float32, ElementFormat::BFloat16,
                                      ElementFormat::Float16};

template <class Arguments>
cudaError_t start(MemoryBoundFamily family, const Arguments& x) {
  return enqueue(ChosenMemoryBound{family, x}, false, nullptr);
}

/// Rows of logits: contiguous, with gaps behind which each begins at a multiple of 16 bytes, as a
/// model's do, and with gaps behind which it does not.
struct Logits {
  int32_t width;
  int64_t stride;
  ElementFormat format;
  int64_t shift = 0;  ///< of all rows, in elements
};
int64_t alignedStride(int32_t width) { return (width + 2 * kLossRun - 1) / kLossRun * kLossRun; }

template <class Test>
void forAll(const Test& test) {
  SomeCases cases;
  for (const int32_t width : kWidths)
    for (const int64_t stride : {int64_t{width}, alignedStride(width), int64_t{width} + 3})
      for (const ElementFormat format : kFormats) {
        if (!cases.takeNext()) continue;
        SCOPED_TRACE(std::to_string(width) + " of " + std::to_string(stride) + " columns of " +
                     nameOf(format));
        Pool pool;
        test(pool, Logits{width, stride, format});
      }
}

/// Of a part of the vocabulary from 100 on: the first and the last label that are here, those next
/// to them that are not, and a row that does not count.
constexpr int32_t kFirst = 100;
const int32_t* labelsAround(Pool& pool, int32_t width) {
  return pool.numbers({kFirst, kFirst + width - 1, kFirst - 1, kFirst + width, -1});
}
/// The label's column, or -1.
int64_t labelOf(int64_t row, int32_t width) { return row == 0 ? 0 : row == 1 ? width - 1 : -1; }

LogitStatistics statisticsOf(Pool& pool, const Logits& of) {
  return {.logits = pool.random({kRows, of.width, of.stride, of.shift}, of.format),
          .statistics = pool.result({1, 3 * kRows, 3 * kRows}, ElementFormat::Float32),
          .labels = labelsAround(pool, of.width),
          .part = {kFirst, of.width},
          .rows = kRows,
          .width = of.width,
          .stride = of.stride};
}
Elements rowOf(const Elements& logits, int64_t place) {
  return {static_cast<char*>(logits.data) + place * bytesOf(logits.format), logits.format};
}
/// Calls visit(row, column, place in memory) for each logit.
template <class Visit>
void forLogits(const Logits& of, const Visit& visit) {
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < of.width; ++column)
      visit(row, column, row * of.stride + column);
}

/// What vectors compute; nothing but statistics is written.
std::vector<char> byVectors(Pool& pool, const LogitStatistics& x) {
  EXPECT_NE(runOf(x), 0);
  std::vector<char> bytes =
      pool.compute([&](MemoryBoundFamily f) { return start(f, x); }).vectorized;
  std::vector<char> others = bytes;
  pool.erase(others, x.statistics, 3 * kRows);
  EXPECT_TRUE(others == pool.image()) << "writes beside its results";
  return bytes;
}

// Logits that are far apart: those below the largest add nothing, wherever the largest comes. They
// rise along the row, fall, or do neither.
TEST(VectorizedLosses, StatisticsAreExact) {
  forAll([](Pool& pool, const Logits& of) {
    const LogitStatistics x = statisticsOf(pool, of);
    const int32_t width = of.width;
    const auto levelOf = [&](int64_t row, int64_t column) {
      const int64_t rising = column * 5 / width;
      return static_cast<double>(row == 0   ? rising
                                 : row == 1 ? -rising
                                            : column * 7 % (row + 3)) *
                 128 -
             256;
    };
    forLogits(of, [&](int64_t row, int64_t column, int64_t place) {
      pool.set(x.logits, place, levelOf(row, column));
    });
    const std::vector<char> got = byVectors(pool, x);
    for (int64_t row = 0; row < kRows; ++row) {
      double largest = -kInfinity, count = 0;
      for (int64_t c = 0; c < width; ++c) largest = std::max(largest, levelOf(row, c));
      for (int64_t c = 0; c < width; ++c) count += levelOf(row, c) == largest ? 1 : 0;
      const int64_t label = labelOf(row, width);
      EXPECT_EQ(pool.numberIn(got, x.statistics, 3 * row), largest) << row;
      EXPECT_EQ(pool.numberIn(got, x.statistics, 3 * row + 1), count) << row;
      EXPECT_EQ(pool.numberIn(got, x.statistics, 3 * row + 2), label < 0 ? 0 : levelOf(row, label))
          << row;
    }
  });
}

// The argument of an exponential is up to 8, rounded once as a difference and once as a multiple of
// log2(e), which is itself rounded: less than 8 roundings each. 2^x errs by 2 units in the last
// place: 4 roundings, and a factor of 28. Each run adds 8 logits of a thread, by a tree of 3 steps,
// to what it had, scaled by such a factor and rounded twice; an edge is like a run, and the tree of
// the block adds 13 times what was scaled once more. All summands are positive, so their relative
// errors are the sum's.
TEST(VectorizedLosses, StatisticsAreNearFloat64) {
  forAll([](Pool& pool, const Logits& of) {
    const LogitStatistics x = statisticsOf(pool, of);
    const int32_t width = of.width;
    const std::vector<char> got = byVectors(pool, x);
    const double runs = 2 + 4 * (1 + width / kBatch);  // of a thread, with its edge
    const double bound = kUnit * (28 + 3 + 30 * runs + 29 + 13);
    for (int64_t row = 0; row < kRows; ++row) {
      const auto logit = [&](int64_t c) {
        return pool.numberIn(got, x.logits, row * of.stride + c);
      };
      double largest = -kInfinity, sum = 0;
      for (int64_t c = 0; c < width; ++c) largest = std::max(largest, logit(c));
      for (int64_t c = 0; c < width; ++c) sum += std::exp(logit(c) - largest);
      const int64_t label = labelOf(row, width);
      EXPECT_EQ(pool.numberIn(got, x.statistics, 3 * row), largest) << row;
      EXPECT_NEAR(pool.numberIn(got, x.statistics, 3 * row + 1), sum, bound * sum) << row;
      EXPECT_EQ(pool.numberIn(got, x.statistics, 3 * row + 2), label < 0 ? 0 : logit(label)) << row;
    }
  });
}

// Of the same logits in float32, to the bit.
TEST(VectorizedLosses, StatisticsOf16BitsAreThoseOfFloat32) {
  for (const int32_t width : kWidths)
    for (const ElementFormat format : {ElementFormat::BFloat16, ElementFormat::Float16}) {
      Pool pool;
      const Logits of{width, width, format};
      const LogitStatistics narrow = statisticsOf(pool, of),
                            wide = statisticsOf(pool, {width, width, ElementFormat::Float32});
      forLogits(of, [&](int64_t, int64_t, int64_t place) {
        pool.set(wide.logits, place, pool.numberIn(pool.image(), narrow.logits, place));
      });
      const std::vector<char> one = byVectors(pool, narrow), other = byVectors(pool, wide);
      for (int64_t i = 0; i < 3 * kRows; ++i)
        ASSERT_EQ(pool.numberIn(one, narrow.statistics, i),
                  pool.numberIn(other, wide.statistics, i))
            << width << " columns of " << nameOf(format) << ", " << i;
    }
}

// Rows that begin at multiples of 16 bytes have all the same order of sums: that of such a row
// alone.
TEST(VectorizedLosses, StatisticsOfAlignedRowsAreThoseOfARowAlone) {
  SomeCases cases;
  for (const int32_t width : kWidths)
    for (const ElementFormat format : kFormats) {
      if (!cases.takeNext()) continue;
      Pool pool;
      const LogitStatistics x = statisticsOf(pool, {width, alignedStride(width), format});
      for (int64_t row = 1; row < kRows; ++row)
        for (int64_t c = 0; c < width; ++c)
          pool.set(x.logits, row * x.stride + c, pool.numberIn(pool.image(), x.logits, c));
      const std::vector<char> got = byVectors(pool, x);
      for (int64_t row = 1; row < kRows; ++row)
        for (const int64_t which : {0, 1})
          EXPECT_EQ(pool.numberIn(got, x.statistics, 3 * row + which),
                    pool.numberIn(got, x.statistics, which))
              << width << " columns of " << nameOf(format) << ", row " << row;
    }
}

// Logits that are no numbers: minus infinity counts as none, also where there are no others; NaN
// and infinity make the sum NaN, of which only infinity is the largest. As the reference kernel
// does.
TEST(VectorizedLosses, StatisticsOfWhatIsNoNumber) {
  for (const int32_t width : {1, 9, 264, kBatch + 9})
    for (const ElementFormat format : kFormats)
      for (const int64_t place : {int64_t{0}, int64_t{width / 2}, int64_t{width} - 1}) {
        SCOPED_TRACE(std::to_string(place) + " of " + std::to_string(width) + " columns of " +
                     nameOf(format));
        Pool pool;
        const LogitStatistics x = statisticsOf(pool, {width, width, format});
        for (int64_t c = 0; c < width; ++c) pool.set(x.logits, c, -kInfinity);
        pool.set(x.logits, 1 * width + place, kNaN);
        pool.set(x.logits, 2 * width + place, kInfinity);
        for (int64_t c = 0; c < width; ++c)
          pool.set(x.logits, 3 * width + c, c == place ? 3 : -kInfinity);
        pool.set(x.logits, 4 * width + place, -kInfinity);
        const Pool::Results results =
            pool.compute([&](MemoryBoundFamily f) { return start(f, x); });
        const auto of = [&](int64_t row, int64_t which) {
          return pool.numberIn(results.vectorized, x.statistics, 3 * row + which);
        };
        const auto reference = [&](int64_t row, int64_t which) {
          return pool.numberIn(results.reference, x.statistics, 3 * row + which);
        };
        EXPECT_EQ(of(0, 0), -3.0e38f);
        EXPECT_EQ(of(0, 1), 0);
        EXPECT_TRUE(std::isnan(of(1, 1)));
        EXPECT_EQ(of(2, 0), kInfinity);
        EXPECT_TRUE(std::isnan(of(2, 1)));
        EXPECT_EQ(of(3, 0), 3);
        EXPECT_EQ(of(3, 1), 1);
        EXPECT_TRUE(std::isfinite(of(4, 1)));
        for (int64_t row = 0; row < kRows; ++row) {
          EXPECT_EQ(of(row, 0), reference(row, 0)) << row;
          EXPECT_EQ(std::isnan(of(row, 1)), std::isnan(reference(row, 1))) << row;
        }
      }
}

/// Of `ranks` that have parts. Their statistics are numbers that could be such.
CrossEntropy lossOf(Pool& pool, const Logits& of, int32_t ranks) {
  const int64_t count = int64_t{3} * kRows * ranks;
  return {.logits = pool.random({kRows, of.width, of.stride, of.shift}, of.format),
          .statistics = pool.random({1, count, count}, ElementFormat::Float32, {1, 4}),
          .labels = labelsAround(pool, of.width),
          .part = {kFirst, of.width},
          .losses = pool.doubles(kRows),
          .rows = kRows,
          .width = of.width,
          .ranks = ranks,
          .gradient = 1,
          .scale = 0.125,
          .stride = of.stride};
}

/// One rank's, whose largest logit is 5 and whose sum is 4.
void setStatistics(Pool& pool, const CrossEntropy& x) {
  for (int64_t row = 0; row < kRows; ++row) {
    pool.set(x.statistics, 3 * row, 5);
    pool.set(x.statistics, 3 * row + 1, 4);
    pool.set(x.statistics, 3 * row + 2, 5);
  }
}

// Logits are the largest or far below it: slopes are a quarter of the scale or 0. Nothing else is
// written, in gaps neither.
TEST(VectorizedLosses, SlopesAreExact) {
  forAll([](Pool& pool, const Logits& of) {
    const CrossEntropy x = lossOf(pool, of, 1);
    setStatistics(pool, x);
    const auto isLargest = [&](int64_t i) { return i * 5 % 7 < 3; };
    forLogits(of, [&](int64_t, int64_t, int64_t place) {
      pool.set(x.logits, place, isLargest(place) ? 5 : -124);
    });
    ASSERT_NE(runOf(x), 0);
    const std::vector<char> got =
        pool.compute([&](MemoryBoundFamily f) { return start(f, x); }).vectorized;
    forLogits(of, [&](int64_t row, int64_t column, int64_t place) {
      const double slope =
          (isLargest(place) ? 0.25 : 0) - (column == labelOf(row, of.width) ? 1 : 0);
      ASSERT_EQ(pool.numberIn(got, x.logits, place), row == 4 ? 0 : slope * x.scale) << place;
    });
    std::vector<char> others = got;
    for (int64_t row = 0; row < kRows; ++row)
      pool.erase(others, rowOf(x.logits, row * of.stride), of.width);
    pool.erase(others, {x.losses, ElementFormat::Float32}, 2 * kRows);
    EXPECT_TRUE(others == pool.image()) << "writes beside its results";
    for (int64_t row = 0; row < kRows; ++row)
      EXPECT_EQ(pool.doubleIn(got, x.losses + row), row == 4 ? 0 : std::log(4.0)) << row;
  });
}

// Whichever kernel a rank has, losses are the same to the bit; here slopes are, too. Without the
// gradient logits stay as they are.
TEST(VectorizedLosses, AreTheReferenceOnes) {
  forAll([](Pool& pool, const Logits& of) {
    for (const int32_t ranks : {1, 3})
      for (const int32_t gradient : {0, 1}) {
        pool.reset();
        CrossEntropy x = lossOf(pool, of, ranks);
        x.gradient = gradient;
        EXPECT_NE(runOf(x), 0);
        pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); },
                                 "the loss of " + std::to_string(ranks) + " ranks");
      }
  });
}

// A NaN is one element's slope, and a row of minus infinity has none but the label's; what a row
// holds that does not count does not matter.
TEST(VectorizedLosses, SlopesOfWhatIsNoNumber) {
  for (const ElementFormat format : kFormats) {
    constexpr int32_t kWidth = 269;
    Pool pool;
    const CrossEntropy x = lossOf(pool, {kWidth, kWidth, format}, 1);
    setStatistics(pool, x);
    for (int64_t c = 0; c < kWidth; ++c) pool.set(x.logits, c, -kInfinity);
    for (const int64_t c : {0, 100, 268}) pool.set(x.logits, kWidth + c, kNaN);
    for (int64_t c = 0; c < kWidth; ++c) pool.set(x.logits, 4 * kWidth + c, kNaN);
    const std::vector<char> got =
        pool.compute([&](MemoryBoundFamily f) { return start(f, x); }).vectorized;
    for (int64_t c = 0; c < kWidth; ++c) {
      EXPECT_EQ(pool.numberIn(got, x.logits, c), c == 0 ? -x.scale : 0) << c;
      EXPECT_EQ(std::isnan(pool.numberIn(got, x.logits, kWidth + c)),
                c == 0 || c == 100 || c == 268)
          << c;
      EXPECT_EQ(pool.numberIn(got, x.logits, 4 * kWidth + c), 0) << c;
    }
  }
}

/// One rank's of a whole vocabulary: the first label, the last, one between them, and a row that
/// does not count.
CrossEntropy wholeOf(Pool& pool, const Logits& of, bool gradient) {
  return {.logits = pool.random({kRows, of.width, of.stride, of.shift}, of.format),
          .statistics = {},
          .labels = pool.numbers({0, of.width - 1, of.width / 2, of.width / 3, -1}),
          .part = {0, of.width},
          .losses = pool.doubles(kRows),
          .rows = kRows,
          .width = of.width,
          .ranks = 1,
          .gradient = gradient ? 1 : 0,
          .scale = 0.125,
          .stride = of.stride};
}
int64_t labelOfWhole(int64_t row, int32_t width) {
  const int64_t labels[] = {0, width - 1, width / 2, width / 3, -1};
  return labels[row];
}
/// Which a block of twice the threads has by itself on a multiprocessor.
constexpr int32_t kLongWidth = (kMostBytesOfWhole >> 1) + 5;

// Logits are the largest or far below it.
TEST(VectorizedLosses, OfAWholeVocabularyAreExact) {
  const auto test = [](Pool& pool, const Logits& of) {
    const CrossEntropy x = wholeOf(pool, of, true);
    const auto isLargest = [&](int64_t row, int64_t column) {
      return column % (row + 2) == 0 || column == of.width - 1;
    };
    forLogits(of, [&](int64_t row, int64_t column, int64_t place) {
      pool.set(x.logits, place, isLargest(row, column) ? 5 : -124);
    });
    ASSERT_NE(runOf(x), 0);
    const std::vector<char> got =
        pool.compute([&](MemoryBoundFamily f) { return start(f, x); }).vectorized;
    const auto scale = static_cast<float>(x.scale);
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t label = labelOfWhole(row, of.width);
      float sum = 0;
      for (int64_t c = 0; c < of.width; ++c) sum += isLargest(row, c) ? 1.0f : 0.0f;
      for (int64_t c = 0; c < of.width; ++c) {
        const float slope = (isLargest(row, c) ? scale / sum : 0) - (c == label ? scale : 0);
        ASSERT_EQ(pool.numberIn(got, x.logits, row * of.stride + c),
                  label < 0 ? 0 : numberOf(bitsOf(double{slope}, of.format), of.format))
            << row << ", " << c;
      }
      const double below = label < 0 || isLargest(row, label) ? 0 : 129;
      EXPECT_EQ(pool.doubleIn(got, x.losses + row), label < 0 ? 0 : std::log(double{sum}) + below)
          << row;
    }
    std::vector<char> others = got;
    for (int64_t row = 0; row < kRows; ++row)
      pool.erase(others, rowOf(x.logits, row * of.stride), of.width);
    pool.erase(others, {x.losses, ElementFormat::Float32}, 2 * kRows);
    EXPECT_TRUE(others == pool.image()) << "writes beside its results";
  };
  forAll(test);
  Pool pool;
  test(pool, {kLongWidth, kLongWidth, ElementFormat::BFloat16});
}

// To the bit, by the reference kernels, and by others where as many threads add: beyond, sums have
// another order, each within the bound of StatisticsAreNearFloat64, so a slope differs by twice
// that, and by a rounding of its type. Without the gradient logits stay as they are.
TEST(VectorizedLosses, OfAWholeVocabularyAreThoseOfItsStatistics) {
  const auto test = [](Pool& pool, const Logits& of) {
    for (const bool gradient : {false, true}) {
      pool.reset();
      const CrossEntropy x = wholeOf(pool, of, gradient);
      CrossEntropy behind = x;
      behind.statistics = pool.result({1, 3 * kRows, 3 * kRows}, ElementFormat::Float32);
      const LogitStatistics ahead{.logits = x.logits,
                                  .statistics = behind.statistics,
                                  .labels = x.labels,
                                  .part = x.part,
                                  .rows = kRows,
                                  .width = of.width,
                                  .stride = of.stride};
      const Pool::Results one = pool.compute([&](MemoryBoundFamily f) { return start(f, x); });
      Pool::Results two = pool.compute([&](MemoryBoundFamily f) {
        const cudaError_t error = start(f, ahead);
        return error == cudaSuccess ? start(f, behind) : error;
      });
      for (std::vector<char>* bytes : {&two.vectorized, &two.reference})
        pool.erase(*bytes, behind.statistics, 3 * kRows);
      EXPECT_TRUE(one.reference == two.reference);
      if (of.width <= kBatch) {
        EXPECT_TRUE(one.vectorized == two.vectorized);
        continue;
      }
      const double runs = 2 + 4 * (1 + of.width / kBatch);
      const double bound = 2 * kUnit * (28 + 3 + 30 * runs + 29 + 13);
      const double rounding = of.format == ElementFormat::Float32    ? kUnit
                              : of.format == ElementFormat::BFloat16 ? 0x1p-8
                                                                     : 0x1p-11;
      forLogits(of, [&](int64_t row, int64_t column, int64_t place) {
        const double slope = pool.numberIn(two.vectorized, x.logits, place);
        const double parts =
            std::abs(slope) + (column == labelOfWhole(row, of.width) ? 2 * x.scale : 0);
        const double least =
            of.format == ElementFormat::Float16 ? 0x1p-25 : 0;  // of a subnormal number
        ASSERT_NEAR(pool.numberIn(one.vectorized, x.logits, place), slope,
                    gradient ? parts * (bound + 2 * rounding) + 2 * least : 0)
            << place;
      });
      for (int64_t row = 0; row < kRows; ++row)
        EXPECT_NEAR(pool.doubleIn(one.vectorized, x.losses + row),
                    pool.doubleIn(two.vectorized, x.losses + row), row == 4 ? 0 : bound)
            << row;
    }
  };
  forAll(test);
  Pool pool;
  test(pool, {kLongWidth, kLongWidth, ElementFormat::BFloat16});
}

// A NaN and an infinity make all of their row NaN; minus infinity counts as none.
TEST(VectorizedLosses, OfAWholeVocabularyOfWhatIsNoNumber) {
  for (const ElementFormat format : kFormats) {
    constexpr int32_t kWidth = 269;
    Pool pool;
    const CrossEntropy x = wholeOf(pool, {kWidth, kWidth, format}, true);
    for (int64_t c = 0; c < kWidth; ++c) {
      pool.set(x.logits, c, c == 100 ? 3 : -kInfinity);
      pool.set(x.logits, 4 * kWidth + c, kNaN);
    }
    pool.set(x.logits, 1 * kWidth + 100, kNaN);
    pool.set(x.logits, 2 * kWidth + 100, kInfinity);
    const Pool::Results results = pool.compute([&](MemoryBoundFamily f) { return start(f, x); });
    for (const std::vector<char>& got : {results.vectorized, results.reference}) {
      for (int64_t c = 0; c < kWidth; ++c) {
        const auto of = [&](int64_t row) { return pool.numberIn(got, x.logits, row * kWidth + c); };
        EXPECT_EQ(of(0), c == 0 ? -x.scale : c == 100 ? x.scale : 0) << c;
        EXPECT_TRUE(std::isnan(of(1))) << c;
        EXPECT_TRUE(std::isnan(of(2)) || of(2) == 0) << c;
        EXPECT_TRUE(std::isfinite(of(3))) << c;
        EXPECT_EQ(of(4), 0) << c;
      }
      const auto loss = [&](int64_t row) { return pool.doubleIn(got, x.losses + row); };
      EXPECT_EQ(loss(0), kInfinity);
      EXPECT_TRUE(std::isnan(loss(1)));
      EXPECT_TRUE(std::isnan(loss(2)));
      EXPECT_TRUE(std::isfinite(loss(3)));
      EXPECT_EQ(loss(4), 0);
    }
  }
}

// Memory that does not begin at 16 bytes.
TEST(VectorizedLosses, OfOthersAreByTheReference) {
  for (const ElementFormat format : kFormats) {
    Pool pool;
    const Logits of{264, 264, format, 1};
    const LogitStatistics statistics = statisticsOf(pool, of);
    const CrossEntropy loss = lossOf(pool, of, 2);
    EXPECT_EQ(runOf(statistics), 0);
    EXPECT_EQ(runOf(loss), 0);
    pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, statistics); },
                             "statistics");
    pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, loss); }, "loss");
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda
