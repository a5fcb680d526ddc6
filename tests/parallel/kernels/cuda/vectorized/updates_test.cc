// Updates of many weights: exactly where numbers are such that nothing is rounded, to the bit what
// the reference kernels give each of them, wherever operands begin and end; and how tables are
// filled.

#include <cmath>
#include <limits>

#include "src/device/cuda.h"
#include "tests/parallel/kernels/cuda/vectorized/pool.h"

namespace tutti::parallel::cuda {
namespace {

constexpr auto kFloat = ElementFormat::Float32, kBrain = ElementFormat::BFloat16;

// What tables are filled with: functions of numbers.

using Filled = std::vector<TensorTable<2>>;
auto filling(Filled& filled) {
  return tablesOf<2>(100, [&filled](const TensorTable<2>& table) { filled.push_back(table); });
}
Elements at(uintptr_t address, ElementFormat format = kFloat) {
  return {reinterpret_cast<void*>(address), format};
}

TEST(TensorTables, HaveWhatBlocksNeed) {
  Filled filled;
  auto tables = filling(filled);
  tables.finish();
  EXPECT_TRUE(filled.empty());
  tables.add({at(64), at(128, kBrain)}, 101, 0.5);
  tables.add({at(192), at(320, kBrain)}, 0);
  tables.add({at(256), at(384, kBrain)}, 100);
  tables.add({at(512), at(448, kBrain)}, 1);
  tables.finish();
  tables.finish();
  ASSERT_EQ(filled.size(), 1u);
  const TensorTable<2>& table = filled[0];
  EXPECT_EQ(table.count, 3u);
  EXPECT_EQ(table.blocks, 4u);
  EXPECT_EQ(table.formats[0], kFloat);
  EXPECT_EQ(table.formats[1], kBrain);
  const uint32_t firsts[] = {0, 2, 3};
  const int64_t counts[] = {101, 100, 1};
  const uintptr_t weights[] = {64, 256, 512}, gradients[] = {128, 384, 448};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(table.entries[i].firstBlock, firsts[i]);
    EXPECT_EQ(table.entries[i].count, counts[i]);
    EXPECT_EQ(table.entries[i].operands[0], at(weights[i]).data);
    EXPECT_EQ(table.entries[i].operands[1], at(gradients[i]).data);
    EXPECT_EQ(table.entries[i].weightDecay, i == 0 ? 0.5f : 0);
  }
}

TEST(TensorTables, EndWhereNoMoreGoIn) {
  constexpr uint32_t kMost = TensorTable<2>::kMost;
  for (const uint32_t count : {kMost, kMost + 1, 2 * kMost + 3}) {
    Filled filled;
    auto tables = filling(filled);
    for (uint32_t i = 0; i < count; ++i) tables.add({at(64), at(128)}, 150);
    tables.finish();
    ASSERT_EQ(filled.size(), (count + kMost - 1) / kMost);
    uint32_t left = count;
    for (const TensorTable<2>& table : filled) {
      EXPECT_EQ(table.count, std::min(left, kMost));
      EXPECT_EQ(table.blocks, 2 * table.count);
      EXPECT_EQ(table.entries[0].firstBlock, 0u);
      left -= table.count;
    }
  }
  Filled filled;
  auto tables = filling(filled);
  tables.add({at(64), at(128)}, 1);
  tables.add({at(64), at(128, kBrain)}, 1);
  tables.add({at(64), at(128, kBrain)}, 1);
  constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();
  tables.add({at(64), at(128, kBrain)}, 100 * (kMostBlocks - 2));
  tables.add({at(64), at(128, kBrain)}, 1);
  tables.finish();
  ASSERT_EQ(filled.size(), 3u);
  EXPECT_EQ(filled[0].count, 1u);
  EXPECT_EQ(filled[1].count, 3u);
  EXPECT_EQ(filled[1].blocks, kMostBlocks);
  EXPECT_EQ(filled[2].count, 1u);
  EXPECT_EQ(filled[2].entries[1].operands[0], nullptr);  // nothing is left of the one before
  EXPECT_EQ(filled[2].entries[1].count, 0);
}

// Weights of a call, and both ways to update them.

struct Weight {
  Elements weight, gradient, first, second;
  int64_t count;
  double decay;
  Elements copy{};
};
using Weights = std::vector<Weight>;

constexpr AdamWRates kAdamW{.gradientScale = 0.5,
                            .learningRate = 0.125,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .epsilon = 1e-8,
                            .weightDecay = 0,
                            .inverseCorrection1 = 2,
                            .inverseCorrection2 = 1.5};
constexpr SgdRates kSgd{
    .gradientScale = 0.5, .learningRate = 0.125, .weightDecay = 0, .momentum = 0.75};

template <int kOperands, class Rates, class OperandsOf>
cudaError_t together(const Weights& all, const Rates& rates, const OperandsOf& operandsOf) {
  cudaError_t error = cudaSuccess;
  auto tables = tablesOf<kOperands>(kUpdateElements, [&](const TensorTable<kOperands>& table) {
    if (error == cudaSuccess) error = enqueue(Updates<Rates, kOperands>{rates, table}, nullptr);
  });
  for (const Weight& each : all) tables.add(operandsOf(each), each.count, each.decay);
  tables.finish();
  return error;
}

cudaError_t adamW(MemoryBoundFamily family, const Weights& all, const AdamWRates& r = kAdamW) {
  if (family == MemoryBoundFamily::Vectorized)
    return together<4>(all, r, [](const Weight& x) {
      return std::array{x.weight, x.gradient, x.first, x.second};
    });
  cudaError_t error = cudaSuccess;
  for (const Weight& x : all)
    if (error == cudaSuccess)
      error = enqueue(AdamWUpdate{x.weight, x.gradient, x.first, x.second, x.count, r.gradientScale,
                                  r.learningRate, r.beta1, r.beta2, r.epsilon, x.decay,
                                  r.inverseCorrection1, r.inverseCorrection2},
                      false, nullptr);
  return error;
}

/// Plainly by two kernels.
cudaError_t adamWWithCopies(MemoryBoundFamily family, const Weights& all) {
  if (family == MemoryBoundFamily::Vectorized)
    return together<5>(all, kAdamW, [](const Weight& x) {
      return std::array{x.weight, x.gradient, x.first, x.second, x.copy};
    });
  cudaError_t error = adamW(family, all);
  const RowPlaces adjacent{.isContiguous = 1};
  for (const Weight& x : all)
    if (error == cudaSuccess && x.count > 0)
      error = enqueue(Convert{x.weight, x.copy, adjacent, adjacent, x.count, x.count}, nullptr);
  return error;
}

cudaError_t sgd(MemoryBoundFamily family, const Weights& all, bool keeps,
                const SgdRates& r = kSgd) {
  if (family == MemoryBoundFamily::Vectorized && keeps)
    return together<3>(all, r, [](const Weight& x) {
      return std::array{x.weight, x.gradient, x.first};
    });
  if (family == MemoryBoundFamily::Vectorized)
    return together<2>(all, r, [](const Weight& x) { return std::array{x.weight, x.gradient}; });
  cudaError_t error = cudaSuccess;
  for (const Weight& x : all)
    if (error == cudaSuccess)
      error = enqueue(SgdUpdate{x.weight, x.gradient, keeps ? x.first : Elements{}, x.count,
                                r.gradientScale, r.learningRate, x.decay, r.momentum},
                      false, nullptr);
  return error;
}

double roundedTo(ElementFormat format, double value) {
  return numberOf(bitsOf(value, format), format);
}

/// Where something is so many elements behind a multiple of 16 bytes.
struct Shifts {
  int64_t weight, gradient, first, second;
};

Weight weightOf(Pool& pool, int64_t count, const Formats& formats, double decay,
                const Shifts& shifts = {}) {
  const auto make = [&](ElementFormat format, int64_t shift, const Pool::Range& range = {-4, 4}) {
    return pool.random({1, count, count, shift}, format, range);
  };
  return {.weight = make(formats.kept, shifts.weight),
          .gradient = make(formats.elements, shifts.gradient),
          .first = make(formats.kept, shifts.first),
          .second = make(formats.kept, shifts.second, {0.25, 2}),
          .count = count,
          .decay = decay};
}

constexpr int64_t kCounts[] = {
    kUpdateElements + 1,    0, 1, 3, 4, 5, 7, 8, 9, 2 * kUpdateElements, 1023,
    4 * kUpdateElements - 3};

std::string describe(const char* what, const Formats& formats) {
  return std::string(what) + ", " + nameOf(formats.elements) + " and " + nameOf(formats.kept);
}

void expectReferenceBits(Pool& pool, const Weights& all, const Formats& formats) {
  pool.expectReferenceBits([&](MemoryBoundFamily f) { return adamW(f, all); },
                           describe("adamW", formats));
  for (const bool keeps : {false, true})
    pool.expectReferenceBits([&](MemoryBoundFamily f) { return sgd(f, all, keeps); },
                             describe("sgd", formats));
}

TEST(VectorizedUpdates, HaveReferenceBits) {
  for (const Formats& formats : kAllFormats) {
    Pool pool;
    Weights all;
    for (const int64_t count : kCounts)
      all.push_back(weightOf(pool, count, formats, 0.25 * static_cast<double>(all.size() % 3)));
    expectReferenceBits(pool, all, formats);
    expectReferenceBits(pool, {all[0]}, formats);
    expectReferenceBits(pool, {all[1], all[2]}, formats);
  }
}

// Each operand by itself, and all of them.
TEST(VectorizedUpdates, HaveReferenceBitsOfOperandsThatAreNotAligned) {
  for (const Formats& formats : kAllFormats) {
    Pool pool;
    Weights all;
    for (const Shifts& shifts : {Shifts{1, 0, 0, 0}, Shifts{0, 1, 0, 0}, Shifts{0, 0, 1, 0},
                                 Shifts{0, 0, 0, 1}, Shifts{2, 2, 2, 2}, Shifts{}})
      for (const int64_t count : {int64_t{37}, int64_t{kUpdateElements} + 8})
        all.push_back(weightOf(pool, count, formats, 0.125, shifts));
    expectReferenceBits(pool, all, formats);
  }
}

// The weight as it is behind the update, rounded to 16 bits: of gradients of either width, and
// where the copy alone is not aligned; more than a table has, of other formats between them.
TEST(VectorizedUpdates, WithCopiesHaveReferenceBits) {
  for (const ElementFormat gradient : {kFloat, kBrain})
    for (const ElementFormat copy : {kBrain, ElementFormat::Float16}) {
      Pool pool;
      Weights all;
      const auto add = [&](int64_t count, ElementFormat of, int64_t shift) {
        all.push_back(weightOf(pool, count, {gradient, kFloat}, 0.125 * double(count % 3)));
        all.back().copy = pool.result({1, count, count, shift}, of);
      };
      for (const int64_t shift : {0, 3})
        for (const int64_t count : kCounts) add(count, copy, shift);
      for (int i = 0; i < 100; ++i) add(1 + i % 11, i < 80 ? copy : kBrain, 0);
      const auto call = [&](MemoryBoundFamily f) { return adamWWithCopies(f, all); };
      pool.expectReferenceBits(call, "adamW with copies");
      const std::vector<char> moved = pool.compute(call).vectorized;
      for (const Weight& x : all)
        for (int64_t i = 0; i < x.count; ++i)
          ASSERT_EQ(pool.numberIn(moved, x.copy, i),
                    roundedTo(x.copy.format, pool.numberIn(moved, x.weight, i)))
              << i;
    }
}

// More than a table has, and of other formats between them.
TEST(VectorizedUpdates, OfHundredsHaveReferenceBits) {
  Pool pool;
  Weights all;
  for (int i = 0; i < 260; ++i)
    all.push_back(weightOf(pool, 1 + i % 11, kAllFormats[i < 200 ? 0 : i / 20 % 5], 0.125 * (i % 4),
                           {i % 5 == 0, 0, 0, 0}));
  expectReferenceBits(pool, all, kAllFormats[0]);
}

TEST(VectorizedUpdates, OfNoneDoNothing) {
  Pool pool;
  const Weights none{weightOf(pool, 0, kAllFormats[0], 0.5)};
  for (const Weights& all : {Weights{}, none}) {
    const auto results = pool.compute([&](MemoryBoundFamily f) {
      const cudaError_t error = adamW(f, all);
      return error == cudaSuccess ? sgd(f, all, true) : error;
    });
    EXPECT_TRUE(results.vectorized == pool.image());
  }
}

double small(int64_t i) { return static_cast<double>(i * 5 % 7 - 3); }

// Halves of small integers, and quotients by powers of two.
TEST(VectorizedUpdates, AreExact) {
  constexpr AdamWRates kHalves{.gradientScale = 2,
                               .learningRate = 4,
                               .beta1 = 0.5,
                               .beta2 = 0.5,
                               .epsilon = 0,
                               .weightDecay = 0,
                               .inverseCorrection1 = 1,
                               .inverseCorrection2 = 1};
  constexpr SgdRates kSteps{
      .gradientScale = 2, .learningRate = 0.5, .weightDecay = 0, .momentum = 3};
  for (const Formats& formats : kAllFormats) {
    Pool pool;
    Weights all;
    for (const int64_t count : kCounts)
      all.push_back(weightOf(pool, count, formats, all.size() % 2 == 0 ? 0.5 : 0));
    const auto gradient = [](int64_t i) {
      return (i % 2 == 0 ? 1.0 : -1.0) * static_cast<double>(1 << i % 3) / 2;
    };
    for (const Weight& x : all)
      for (int64_t i = 0; i < x.count; ++i) {
        pool.set(x.weight, i, small(i));
        pool.set(x.gradient, i, gradient(i));
        pool.set(x.first, i, 2 * small(i + 3));
        pool.set(x.second, i, 4 * gradient(i) * gradient(i));
      }
    const auto moved =
        pool.compute([&](MemoryBoundFamily f) { return adamW(f, all, kHalves); }).vectorized;
    for (const Weight& x : all)
      for (int64_t i = 0; i < x.count; ++i) {
        const double g = 2 * gradient(i), first = small(i + 3) + g / 2;
        const double weight = small(i) - 4 * (first / std::abs(g) + x.decay * small(i));
        ASSERT_EQ(pool.numberIn(moved, x.weight, i), roundedTo(x.weight.format, weight)) << i;
        ASSERT_EQ(pool.numberIn(moved, x.gradient, i), gradient(i)) << i;
        ASSERT_EQ(pool.numberIn(moved, x.first, i), roundedTo(x.first.format, first)) << i;
        ASSERT_EQ(pool.numberIn(moved, x.second, i), g * g) << i;
      }
    for (const bool keeps : {false, true}) {
      const auto down =
          pool.compute([&](MemoryBoundFamily f) { return sgd(f, all, keeps, kSteps); }).vectorized;
      for (const Weight& x : all)
        for (int64_t i = 0; i < x.count; ++i) {
          const double slope = 2 * gradient(i) + x.decay * small(i);
          const double velocity = keeps ? 6 * small(i + 3) + slope : slope;
          const double weight = small(i) - velocity / 2;
          ASSERT_EQ(pool.numberIn(down, x.weight, i), roundedTo(x.weight.format, weight)) << i;
          if (keeps) {
            ASSERT_EQ(pool.numberIn(down, x.first, i), roundedTo(x.first.format, velocity)) << i;
          }
        }
    }
  }
}

// Errors of some roundings of the parts of a step; of gradients that stay off zero.
TEST(VectorizedUpdates, AreNearFloat64) {
  constexpr double kUnit = 0x1p-24;
  for (const Formats& formats : kAllFormats) {
    Pool pool;
    Weights all;
    for (const int64_t count : kCounts) all.push_back(weightOf(pool, count, formats, 0.25));
    const auto moved = pool.compute([&](MemoryBoundFamily f) { return adamW(f, all); }).vectorized;
    const AdamWRates r = kAdamW;
    const double rounding = formats.kept == kFloat   ? kUnit
                            : formats.kept == kBrain ? 0x1p-8
                                                     : 0x1p-11;
    for (const Weight& x : all)
      for (int64_t i = 0; i < x.count; ++i) {
        const auto in = [&](const Elements& of) { return pool.numberIn(pool.image(), of, i); };
        const double g = in(x.gradient) * double(r.gradientScale), keep1 = double(r.beta1),
                     keep2 = double(r.beta2);
        const double first = keep1 * in(x.first) + (1 - keep1) * g;
        const double second = keep2 * in(x.second) + (1 - keep2) * g * g;
        const double root = std::sqrt(second * double(r.inverseCorrection2)) + double(r.epsilon);
        const double step = first * double(r.inverseCorrection1) / root;
        const double weight =
            in(x.weight) - double(r.learningRate) * (step + x.decay * in(x.weight));
        // The mean's parts may cancel.
        const double ofFirst = 4 * kUnit * (std::abs(in(x.first)) + std::abs(g));
        const double ofStep = 2 * ofFirst / root + 12 * kUnit * std::abs(step);
        EXPECT_NEAR(pool.numberIn(moved, x.first, i), first, ofFirst + rounding * std::abs(first));
        EXPECT_NEAR(pool.numberIn(moved, x.second, i), second, (8 * kUnit + rounding) * second);
        ASSERT_NEAR(pool.numberIn(moved, x.weight, i), weight,
                    ofStep + 8 * kUnit * (std::abs(in(x.weight)) + std::abs(step)) +
                        rounding * std::abs(weight))
            << i;
      }
  }
}

// Emulated, a NaN becomes the processor's own where runs are stored, whose bits no reference kernel
// makes; one by one it keeps its bits. A GPU makes the same NaN of each.
TEST(VectorizedUpdates, AreByRunsWhereTheyCanBe) {
  if (!device::cudaSupport().emulated) GTEST_SKIP() << "a GPU's NaNs do not tell runs from others";
  const Formats mixed{kFloat, kBrain};
  const auto hasReferenceBits = [&](int64_t index, const Shifts& shifts) {
    Pool pool;
    const Weight x = weightOf(pool, 3 * 8 + 5, mixed, 0, shifts);
    pool.set(x.gradient, index, std::numeric_limits<double>::quiet_NaN());
    const auto results = pool.compute([&](MemoryBoundFamily f) { return adamW(f, {x}); });
    EXPECT_TRUE(std::isnan(pool.numberIn(results.vectorized, x.weight, index)));
    return results.vectorized == results.reference;
  };
  EXPECT_FALSE(hasReferenceBits(0, {}));
  EXPECT_FALSE(hasReferenceBits(23, {}));
  EXPECT_TRUE(hasReferenceBits(24, {}));
  EXPECT_TRUE(hasReferenceBits(0, {0, 0, 0, 1}));
}

}  // namespace
}  // namespace tutti::parallel::cuda
