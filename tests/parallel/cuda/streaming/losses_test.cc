// The loss: exactly where exponentials are 1 or 0, else against float64; its gradient to the bit
// what the plain kernel computes. Of rows that begin anywhere, of one element and of several
// batches of a block.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/parallel/cuda/streaming/pool.h"

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
constexpr Format kFormats[] = {Format::Float32, Format::BFloat16, Format::Float16};

template <class Arguments>
cudaError_t start(StreamingFamily family, const Arguments& x) {
  return enqueue(ChosenStreaming{family, x}, false, nullptr);
}

template <class Test>
void forAll(const Test& test) {
  for (const int32_t width : kWidths)
    for (const Format format : kFormats) {
      SCOPED_TRACE(std::to_string(width) + " columns of " + nameOf(format));
      Pool pool;
      test(pool, width, format);
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

LogitStatistics statisticsOf(Pool& pool, int32_t width, Format format, int64_t shift = 0) {
  return {.logits = pool.random({kRows, width, width, shift}, format),
          .statistics = pool.result({1, 3 * kRows, 3 * kRows}, Format::Float32),
          .labels = labelsAround(pool, width),
          .part = {kFirst, width},
          .rows = kRows,
          .width = width};
}

/// What vectors compute; nothing but statistics is written.
std::vector<char> byVectors(Pool& pool, const LogitStatistics& x) {
  EXPECT_NE(runOf(x), 0);
  std::vector<char> bytes = pool.compute([&](StreamingFamily f) { return start(f, x); }).vectors;
  std::vector<char> others = bytes;
  pool.erase(others, x.statistics, 3 * kRows);
  EXPECT_TRUE(others == pool.image()) << "writes beside its results";
  return bytes;
}

// Logits that are far apart: those below the largest add nothing, wherever the largest comes. They
// rise along the row, fall, or do neither.
TEST(StreamedLosses, StatisticsAreExact) {
  forAll([](Pool& pool, int32_t width, Format format) {
    const LogitStatistics x = statisticsOf(pool, width, format);
    const auto levelOf = [&](int64_t row, int64_t column) {
      const int64_t rising = column * 5 / width;
      return static_cast<double>(row == 0   ? rising
                                 : row == 1 ? -rising
                                            : column * 7 % (row + 3)) *
                 128 -
             256;
    };
    for (int64_t i = 0; i < int64_t{kRows} * width; ++i)
      pool.set(x.logits, i, levelOf(i / width, i % width));
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

// The argument of an exponential is up to 8 and rounded once, and exp itself errs by 4 roundings: a
// factor of 12. Each batch adds 32 logits of a thread to what it had, scaled by such a factor and
// rounded; edges are like a batch, and the tree adds 13 times what was scaled once more. All
// summands are positive, so their relative errors are the sum's.
TEST(StreamedLosses, StatisticsAreNearFloat64) {
  forAll([](Pool& pool, int32_t width, Format format) {
    const LogitStatistics x = statisticsOf(pool, width, format);
    const std::vector<char> got = byVectors(pool, x);
    const double batches = 2 + width / kBatch;
    const double bound = kUnit * (12 + 13 * (batches + 1) + 32 * batches + 13);
    for (int64_t row = 0; row < kRows; ++row) {
      const auto logit = [&](int64_t c) { return pool.numberIn(got, x.logits, row * width + c); };
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
TEST(StreamedLosses, StatisticsOf16BitsAreThoseOfFloat32) {
  for (const int32_t width : kWidths)
    for (const Format format : {Format::BFloat16, Format::Float16}) {
      Pool pool;
      const LogitStatistics narrow = statisticsOf(pool, width, format),
                            wide = statisticsOf(pool, width, Format::Float32);
      for (int64_t i = 0; i < int64_t{kRows} * width; ++i)
        pool.set(wide.logits, i, pool.numberIn(pool.image(), narrow.logits, i));
      const std::vector<char> one = byVectors(pool, narrow), other = byVectors(pool, wide);
      for (int64_t i = 0; i < 3 * kRows; ++i)
        ASSERT_EQ(pool.numberIn(one, narrow.statistics, i),
                  pool.numberIn(other, wide.statistics, i))
            << width << " columns of " << nameOf(format) << ", " << i;
    }
}

// Logits that are no numbers: minus infinity counts as none, also where there are no others; NaN
// and infinity make the sum NaN, of which only infinity is the largest. As the plain kernel does.
TEST(StreamedLosses, StatisticsOfWhatIsNoNumber) {
  for (const int32_t width : {1, 9, 264, kBatch + 9})
    for (const Format format : kFormats)
      for (const int64_t place : {int64_t{0}, int64_t{width / 2}, int64_t{width} - 1}) {
        SCOPED_TRACE(std::to_string(place) + " of " + std::to_string(width) + " columns of " +
                     nameOf(format));
        Pool pool;
        const LogitStatistics x = statisticsOf(pool, width, format);
        for (int64_t c = 0; c < width; ++c) pool.set(x.logits, c, -kInfinity);
        pool.set(x.logits, 1 * width + place, kNaN);
        pool.set(x.logits, 2 * width + place, kInfinity);
        for (int64_t c = 0; c < width; ++c)
          pool.set(x.logits, 3 * width + c, c == place ? 3 : -kInfinity);
        pool.set(x.logits, 4 * width + place, -kInfinity);
        const Pool::Results results = pool.compute([&](StreamingFamily f) { return start(f, x); });
        const auto of = [&](int64_t row, int64_t which) {
          return pool.numberIn(results.vectors, x.statistics, 3 * row + which);
        };
        const auto plain = [&](int64_t row, int64_t which) {
          return pool.numberIn(results.plain, x.statistics, 3 * row + which);
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
          EXPECT_EQ(of(row, 0), plain(row, 0)) << row;
          EXPECT_EQ(std::isnan(of(row, 1)), std::isnan(plain(row, 1))) << row;
        }
      }
}

/// Of `ranks` that have parts. Their statistics are numbers that could be such.
CrossEntropy lossOf(Pool& pool, int32_t width, Format format, int32_t ranks, int64_t shift = 0) {
  const int64_t count = int64_t{3} * kRows * ranks;
  const CrossEntropy x{.logits = pool.random({kRows, width, width, shift}, format),
                       .statistics = pool.random({1, count, count}, Format::Float32, {1, 4}),
                       .labels = labelsAround(pool, width),
                       .part = {kFirst, width},
                       .losses = pool.doubles(kRows),
                       .rows = kRows,
                       .width = width,
                       .ranks = ranks,
                       .gradient = 1,
                       .scale = 0.125};
  return x;
}

/// One rank's, whose largest logit is 5 and whose sum is 4.
void setStatistics(Pool& pool, const CrossEntropy& x) {
  for (int64_t row = 0; row < kRows; ++row) {
    pool.set(x.statistics, 3 * row, 5);
    pool.set(x.statistics, 3 * row + 1, 4);
    pool.set(x.statistics, 3 * row + 2, 5);
  }
}

// Logits are the largest or far below it: slopes are a quarter of the scale or 0.
TEST(StreamedLosses, SlopesAreExact) {
  forAll([](Pool& pool, int32_t width, Format format) {
    const CrossEntropy x = lossOf(pool, width, format, 1);
    setStatistics(pool, x);
    const auto isLargest = [&](int64_t i) { return i * 5 % 7 < 3; };
    const int64_t count = int64_t{kRows} * width;
    for (int64_t i = 0; i < count; ++i) pool.set(x.logits, i, isLargest(i) ? 5 : -124);
    ASSERT_NE(runOf(x), 0);
    const std::vector<char> got =
        pool.compute([&](StreamingFamily f) { return start(f, x); }).vectors;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = i / width;
      const double slope = (isLargest(i) ? 0.25 : 0) - (i % width == labelOf(row, width) ? 1 : 0);
      ASSERT_EQ(pool.numberIn(got, x.logits, i), row == 4 ? 0 : slope * x.scale) << i;
    }
    for (int64_t row = 0; row < kRows; ++row)
      EXPECT_EQ(pool.doubleIn(got, x.losses + row), row == 4 ? 0 : std::log(4.0)) << row;
  });
}

// Whichever kernel a rank has, losses are the same to the bit; here slopes are, too. Without the
// gradient logits stay as they are.
TEST(StreamedLosses, AreThePlainOnes) {
  forAll([](Pool& pool, int32_t width, Format format) {
    for (const int32_t ranks : {1, 3})
      for (const int32_t gradient : {0, 1}) {
        pool.reset();
        CrossEntropy x = lossOf(pool, width, format, ranks);
        x.gradient = gradient;
        EXPECT_NE(runOf(x), 0);
        pool.expectPlainBits([&](StreamingFamily f) { return start(f, x); },
                             "the loss of " + std::to_string(ranks) + " ranks");
      }
  });
}

// A NaN is one element's slope, and a row of minus infinity has none but the label's; what a row
// holds that does not count does not matter.
TEST(StreamedLosses, SlopesOfWhatIsNoNumber) {
  for (const Format format : kFormats) {
    constexpr int32_t kWidth = 269;
    Pool pool;
    const CrossEntropy x = lossOf(pool, kWidth, format, 1);
    setStatistics(pool, x);
    for (int64_t c = 0; c < kWidth; ++c) pool.set(x.logits, c, -kInfinity);
    for (const int64_t c : {0, 100, 268}) pool.set(x.logits, kWidth + c, kNaN);
    for (int64_t c = 0; c < kWidth; ++c) pool.set(x.logits, 4 * kWidth + c, kNaN);
    const std::vector<char> got =
        pool.compute([&](StreamingFamily f) { return start(f, x); }).vectors;
    for (int64_t c = 0; c < kWidth; ++c) {
      EXPECT_EQ(pool.numberIn(got, x.logits, c), c == 0 ? -x.scale : 0) << c;
      EXPECT_EQ(std::isnan(pool.numberIn(got, x.logits, kWidth + c)),
                c == 0 || c == 100 || c == 268)
          << c;
      EXPECT_EQ(pool.numberIn(got, x.logits, 4 * kWidth + c), 0) << c;
    }
  }
}

// Memory that does not begin at 16 bytes.
TEST(StreamedLosses, OfOthersArePlain) {
  for (const Format format : kFormats) {
    Pool pool;
    const LogitStatistics statistics = statisticsOf(pool, 264, format, 1);
    const CrossEntropy loss = lossOf(pool, 264, format, 2, 1);
    EXPECT_EQ(runOf(statistics), 0);
    EXPECT_EQ(runOf(loss), 0);
    pool.expectPlainBits([&](StreamingFamily f) { return start(f, statistics); }, "statistics");
    pool.expectPlainBits([&](StreamingFamily f) { return start(f, loss); }, "loss");
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda
