// Norms of rows that stay in registers: exactly where numbers are such that nothing is rounded,
// else against float64; at each width from which on more threads take a row, of rows that fill no
// block.

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "tests/parallel/kernels/cuda/vectorized/pool.h"
#include "tests/parallel/kernels/cuda/vectorized/some_cases.h"

namespace tutti::parallel::cuda {
namespace {

constexpr int32_t kRows = 5;
constexpr double kUnit = 0x1p-24;  // of rounding to float32
/// More than roundings of a sum over a row: 32 and a tree of 13 in a row of 8192, and the quotient.
constexpr double kOfSum = 64 * kUnit;
constexpr int32_t kWidths[] = {8, 248, 256, 264, 1024, 1032, 4096, 4104, 8192};
/// A run divides them, and they divide without a rest.
constexpr int32_t kPowers[] = {8, 256, 512, 1024, 2048, 4096, 8192};

double roundingOf(ElementFormat format) {
  return format == ElementFormat::BFloat16  ? 0x1p-8
         : format == ElementFormat::Float16 ? 0x1p-11
                                            : kUnit;
}

template <class Arguments>
cudaError_t start(MemoryBoundFamily family, const Arguments& x) {
  return enqueue(ChosenMemoryBound{family, x}, false, nullptr);
}

/// What vectors compute; nothing but results is written.
struct Result {
  const Elements& x;
  int64_t count;
};
template <class Arguments>
std::vector<char> byVectors(Pool& pool, const Arguments& x, std::initializer_list<Result> results) {
  EXPECT_NE(runOf(x), 0);
  std::vector<char> bytes =
      pool.compute([&](MemoryBoundFamily f) { return start(f, x); }).vectorized;
  std::vector<char> others = bytes;
  for (const Result& each : results)
    if (each.x.data != nullptr) pool.erase(others, each.x, each.count);
  EXPECT_TRUE(others == pool.image()) << "writes beside its results";
  return bytes;
}

/// Without a residual.
NormForward normOf(Pool& pool, int32_t width, const Formats& formats, bool centered,
                   int64_t shift = 0) {
  const Rows all{kRows, width, width, shift}, one{1, width, width}, numbers{1, kRows, kRows};
  return {.x = pool.random(all, formats.elements),
          .weight = pool.random(one, formats.kept),
          .bias = centered ? pool.random(one, formats.kept) : Elements{},
          .y = pool.result(all, formats.elements),
          .mean = centered ? pool.result(numbers, ElementFormat::Float32) : Elements{},
          .rstd = pool.result(numbers, ElementFormat::Float32),
          .residual = {},
          .rows = kRows,
          .width = width,
          .epsilon = 0.5};
}
Elements residualOf(Pool& pool, int32_t width, ElementFormat format, int64_t shift = 0) {
  return pool.random({kRows, width, width, shift}, format);
}

NormBackward backwardOf(Pool& pool, int32_t width, const Formats& formats, bool centered, bool adds,
                        int64_t shift = 0) {
  const Rows all{kRows, width, width, shift}, one{1, width, width}, numbers{1, kRows, kRows};
  return {.dy = pool.random(all, formats.kept),
          .x = pool.random(all, formats.elements),
          .weight = pool.random(one, formats.kept),
          .mean = centered ? pool.random(numbers, ElementFormat::Float32) : Elements{},
          .rstd = pool.random(numbers, ElementFormat::Float32, {0.25, 2}),
          .residual = adds ? pool.random(all, formats.elements) : Elements{},
          .dx = pool.result(all, formats.elements),
          .rows = kRows,
          .width = width};
}

std::string describe(int32_t width, const Formats& formats, bool centered) {
  return std::string(centered ? "layerNorm" : "rmsNorm") + " of " + std::to_string(width) + ", " +
         nameOf(formats.elements) + " and " + nameOf(formats.kept);
}

template <size_t kCount, class Test>
void forAll(const int32_t (&widths)[kCount], const Test& test) {
  SomeCases cases;
  for (const int32_t width : widths)
    for (const Formats& formats : kAllFormats)
      for (const bool centered : {false, true}) {
        if (!cases.takeNext()) continue;
        SCOPED_TRACE(describe(width, formats, centered));
        Pool pool;
        test(pool, width, formats, centered);
      }
}

/// So many at `x` are what number(index) gives.
template <class Number>
void fill(Pool& pool, const Elements& x, int64_t count, const Number& number) {
  if (x.data == nullptr) return;
  for (int64_t i = 0; i < count; ++i) pool.set(x, i, number(i));
}
/// From -3 to 3.
double small(int64_t i) { return static_cast<double>(i * 5 % 7 - 3); }

double roundedTo(ElementFormat format, double value) {
  return numberOf(bitsOf(value, format), format);
}

/// Half of a row 2 away from its mean one way, half the other way: rstd is 1/2. Where something is
/// added, after that.
void expectExactNorm(Pool& pool, int32_t width, const Formats& formats, bool centered, bool adds) {
  NormForward x = normOf(pool, width, formats, centered);
  if (adds) x.residual = residualOf(pool, width, formats.kept);
  x.epsilon = 0;
  const double mean = centered ? 3 : 0;
  const auto isUp = [&](int64_t i) { return (i % width + i / width) % 2 == 0; };
  const auto normalized = [&](int64_t i) { return mean + (isUp(i) ? 2 : -2); };
  const auto added = [&](int64_t i) { return adds ? small(i / 3) : 0; };
  fill(pool, x.x, int64_t{kRows} * width, [&](int64_t i) { return normalized(i) - added(i); });
  fill(pool, x.residual, int64_t{kRows} * width, added);
  fill(pool, x.weight, width, small);
  fill(pool, x.bias, width, [](int64_t i) { return small(i + 1); });
  const int64_t count = int64_t{kRows} * width;
  const std::vector<char> got =
      byVectors(pool, x, {{x.y, count}, {x.mean, kRows}, {x.rstd, kRows}, {x.x, adds ? count : 0}});
  for (int64_t i = 0; i < count; ++i) {
    const double bias = centered ? small(i % width + 1) : 0;
    ASSERT_EQ(pool.numberIn(got, x.x, i), normalized(i)) << i;
    ASSERT_EQ(pool.numberIn(got, x.y, i), (isUp(i) ? 1 : -1) * small(i % width) + bias) << i;
  }
  for (int row = 0; row < kRows; ++row) {
    EXPECT_EQ(pool.numberIn(got, x.rstd, row), 0.5);
    if (centered) {
      EXPECT_EQ(pool.numberIn(got, x.mean, row), mean);
    }
  }
}

TEST(VectorizedRows, NormIsExact) {
  forAll(kPowers, [](Pool& pool, int32_t width, const Formats& formats, bool centered) {
    for (const bool adds : {false, true}) {
      pool.reset();
      expectExactNorm(pool, width, formats, centered, adds);
    }
  });
}

// All bytes are those of a sum that is stored, and of a norm of that, by the same family.
TEST(VectorizedRows, NormOfASumIsASumAndANorm) {
  constexpr int32_t kAll[] = {8, 248, 256, 264, 1024, 1032, 4096, 4104, 8192, 13, 8200};
  forAll(kAll, [](Pool& pool, int32_t width, const Formats& formats, bool centered) {
    for (const int64_t shift : {0, 1}) {
      if (shift == 1 && width > 264) continue;
      pool.reset();
      NormForward fused = normOf(pool, width, formats, centered), apart = fused;
      fused.residual = residualOf(pool, width, formats.kept, shift);
      EXPECT_EQ(runOf(fused) != 0, width % 8 == 0 && width <= kMostNormColumns && shift == 0);
      const int64_t count = int64_t{kRows} * width;
      const RowPlaces rows{.isContiguous = 1, .extents = {1, 1, 1}, .strides = {0, 0, 0}};
      const AddRows add{fused.residual, fused.x, rows, rows, count, width};
      // The norm apart is by vectors where the fused one is.
      const bool byVectors = runOf(fused) != 0;
      const auto together =
          pool.compute([&](MemoryBoundFamily family) { return start(family, fused); });
      const auto oneByOne = pool.compute([&](MemoryBoundFamily family) {
        const cudaError_t error = start(family, add);
        return error == cudaSuccess
                   ? start(byVectors ? family : MemoryBoundFamily::Reference, apart)
                   : error;
      });
      EXPECT_FALSE(together.reference == pool.image());
      EXPECT_TRUE(together.vectorized == oneByOne.vectorized) << "shifted by " << shift;
      EXPECT_TRUE(together.reference == oneByOne.reference) << "shifted by " << shift;
    }
  });
}

// Sums of halves of integers, whose means over a power of two are not rounded either: of dx the
// rounding to its own type is left.
TEST(VectorizedRows, NormBackwardIsExact) {
  forAll(kPowers, [](Pool& pool, int32_t width, const Formats& formats, bool centered) {
    const NormBackward x = backwardOf(pool, width, formats, centered, true);
    const int64_t count = int64_t{kRows} * width;
    fill(pool, x.dy, count, small);
    fill(pool, x.x, count, [](int64_t i) { return small(i / 3); });
    fill(pool, x.weight, width, [](int64_t i) { return double(i % 2 + 1); });
    fill(pool, x.residual, count, [](int64_t i) { return small(i / 5); });
    fill(pool, x.mean, kRows, [](int64_t) { return 1; });
    fill(pool, x.rstd, kRows, [](int64_t) { return 0.5; });
    const std::vector<char> got = byVectors(pool, x, {{x.dx, count}});
    const double mean = centered ? 1 : 0;
    const auto slope = [](int64_t i, int64_t column) {
      return small(i) * static_cast<double>(column % 2 + 1);
    };
    const auto normal = [&](int64_t i) { return (small(i / 3) - mean) * 0.5; };
    for (int64_t row = 0; row < kRows; ++row) {
      double slopes = 0, products = 0;
      for (int64_t c = 0; c < width; ++c) {
        slopes += slope(row * width + c, c);
        products += slope(row * width + c, c) * normal(row * width + c);
      }
      const double level = centered ? slopes / width : 0, along = products / width;
      for (int64_t c = 0; c < width; ++c) {
        const int64_t i = row * width + c;
        const double dx = (slope(i, c) - level - normal(i) * along) * 0.5 + small(i / 5);
        ASSERT_EQ(pool.numberIn(got, x.dx, i), roundedTo(x.dx.format, dx)) << i;
      }
    }
  });
}

// A mean is wrong by kOfSum of the largest number; so is a distance from it, and so are by twice as
// much of them squares, whose root halves that.
TEST(VectorizedRows, NormIsNearFloat64) {
  forAll(kWidths, [](Pool& pool, int32_t width, const Formats& formats, bool centered) {
    const NormForward x = normOf(pool, width, formats, centered);
    const std::vector<char> got =
        byVectors(pool, x, {{x.y, int64_t{kRows} * width}, {x.mean, kRows}, {x.rstd, kRows}});
    const auto in = [&](const Elements& of, int64_t i) { return pool.numberIn(got, of, i); };
    for (int64_t row = 0; row < kRows; ++row) {
      double sum = 0, squares = 0, largest = 0;
      for (int64_t c = 0; c < width; ++c) {
        sum += in(x.x, row * width + c);
        largest = std::max(largest, std::abs(in(x.x, row * width + c)));
      }
      const double mean = centered ? sum / width : 0;
      for (int64_t c = 0; c < width; ++c) squares += std::pow(in(x.x, row * width + c) - mean, 2);
      const double rstd = 1 / std::sqrt(squares / width + static_cast<double>(float(x.epsilon)));
      const double away = kOfSum * largest, ofRstd = rstd * away + kOfSum;
      if (centered) {
        EXPECT_NEAR(in(x.mean, row), mean, away);
      }
      EXPECT_NEAR(in(x.rstd, row), rstd, rstd * ofRstd);
      for (int64_t c = 0; c < width; ++c) {
        const double normal = (in(x.x, row * width + c) - mean) * rstd, weight = in(x.weight, c);
        const double bias = centered ? in(x.bias, c) : 0, y = normal * weight + bias;
        const double bound = std::abs(weight) * (rstd * away + std::abs(normal) * ofRstd) +
                             4 * kUnit * (std::abs(normal * weight) + std::abs(bias)) +
                             roundingOf(x.y.format) * std::abs(y);
        ASSERT_NEAR(in(x.y, row * width + c), y, bound) << row << ", " << c;
      }
    }
  });
}

// Both means are wrong by kOfSum of the means of sizes. Also in the place of the residual.
TEST(VectorizedRows, NormBackwardIsNearFloat64) {
  forAll(kWidths, [](Pool& pool, int32_t width, const Formats& formats, bool centered) {
    for (const bool adds : {false, true}) {
      pool.reset();
      NormBackward x = backwardOf(pool, width, formats, centered, adds);
      if (adds) x.dx = x.residual;
      const std::vector<char> got = byVectors(pool, x, {{x.dx, int64_t{kRows} * width}});
      const auto in = [&](const Elements& of, int64_t i) {
        return of.data == nullptr ? 0 : pool.numberIn(pool.image(), of, i);
      };
      for (int64_t row = 0; row < kRows; ++row) {
        const double mean = in(x.mean, row), rstd = in(x.rstd, row);
        const auto slope = [&](int64_t c) { return in(x.dy, row * width + c) * in(x.weight, c); };
        const auto normal = [&](int64_t c) { return (in(x.x, row * width + c) - mean) * rstd; };
        double level = 0, along = 0, sizeOfLevel = 0, sizeOfAlong = 0;
        for (int64_t c = 0; c < width; ++c) {
          if (centered) level += slope(c) / width, sizeOfLevel += std::abs(slope(c)) / width;
          along += slope(c) * normal(c) / width;
          sizeOfAlong += std::abs(slope(c) * normal(c)) / width;
        }
        for (int64_t c = 0; c < width; ++c) {
          const double residual = in(x.residual, row * width + c);
          const double dx = (slope(c) - level - normal(c) * along) * rstd + residual;
          const double parts = std::abs(slope(c)) + std::abs(level) + std::abs(normal(c) * along);
          const double bound =
              rstd *
                  (kOfSum * (sizeOfLevel + std::abs(normal(c)) * sizeOfAlong) + 8 * kUnit * parts) +
              2 * kUnit * std::abs(residual) + roundingOf(x.dx.format) * std::abs(dx);
          ASSERT_NEAR(pool.numberIn(got, x.dx, row * width + c), dx, bound) << row << ", " << c;
        }
      }
    }
  });
}

// Memory that does not begin at 16 bytes, a width that no run divides, and one that registers do
// not hold.
TEST(VectorizedRows, NormsOfOthersAreByTheReference) {
  struct Other {
    int32_t width;
    int64_t shift;
  };
  SomeCases cases;
  for (const Other& other : {Other{264, 1}, Other{13, 0}, Other{8200, 0}})
    for (const Formats& formats : kAllFormats) {
      if (!cases.takeNext()) continue;
      Pool pool;
      const NormForward norm = normOf(pool, other.width, formats, true, other.shift);
      const NormBackward backward = backwardOf(pool, other.width, formats, true, true, other.shift);
      EXPECT_EQ(runOf(norm), 0);
      EXPECT_EQ(runOf(backward), 0);
      pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, norm); }, "norm");
      pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, backward); },
                               "normBackward");
    }
}

}  // namespace
}  // namespace tutti::parallel::cuda
