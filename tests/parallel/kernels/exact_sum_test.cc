// The exact sum: right to one rounding, and the same bits in any order and any grouping.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "parallel/kernels/exact_sum.h"

namespace tutti::parallel {
namespace {

constexpr unsigned kSeed = 20;

double sumOf(const std::vector<float>& values) {
  ExactSum sum;
  sum.addSquares(values);
  return sum.value();
}

std::vector<float> wideValues(size_t count) {
  std::mt19937 random(kSeed);
  std::vector<float> values(count);
  for (float& v : values)
    v = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                   std::uniform_int_distribution<int>(-60, 60)(random));
  return values;
}

TEST(ExactSum, SmallNumbersByHand) {
  EXPECT_EQ(sumOf({}), 0);
  EXPECT_EQ(sumOf({3, 4}), 25);
  EXPECT_EQ(sumOf({-0.5f}), 0.25);
  EXPECT_EQ(sumOf({std::numeric_limits<float>::denorm_min()}), 0x1p-298);
  EXPECT_EQ(sumOf({std::numeric_limits<float>::max()}),
            static_cast<double>(std::numeric_limits<float>::max()) *
                static_cast<double>(std::numeric_limits<float>::max()));
}

TEST(ExactSum, LosesNothingToALargeNeighbour) {
  ExactSum sum;
  sum.addSquares(std::vector<float>{0x1p60f, 0x1p-60f});
  sum.add(-0x1p120);
  EXPECT_EQ(sum.value(), 0x1p-120);
  sum.add(-0x1p-119);
  EXPECT_EQ(sum.value(), -0x1p-120);
}

TEST(ExactSum, RoundsOnceToNearestEven) {
  const auto rounded = [](std::vector<double> parts) {
    ExactSum sum;
    for (double part : parts) sum.add(part);
    return sum.value();
  };
  EXPECT_EQ(rounded({1, 0x1p-53}), 1);                       // a tie, to even
  EXPECT_EQ(rounded({1, 0x1p-53, 0x1p-1000}), 1 + 0x1p-52);  // just above it
  EXPECT_EQ(rounded({1 + 0x1p-52, 0x1p-53}), 1 + 0x1p-51);   // a tie, to even, upwards
  EXPECT_EQ(rounded({0x1p1000, 0x1p-1000, -0x1p1000}), 0x1p-1000);
  EXPECT_EQ(rounded({1.5, -0x1p-54}), 1.5);
}

TEST(ExactSum, OrderAndGroupingDoNotMatter) {
  std::vector<float> values = wideValues(70001);
  const double expected = sumOf(values);
  long double reference = 0;
  for (float v : values) reference += static_cast<long double>(v) * v;
  EXPECT_NEAR(expected, static_cast<double>(reference), 1e-12 * expected);
  std::mt19937 random(kSeed);
  for (size_t ranks : {1u, 2u, 3u, 7u}) {
    std::shuffle(values.begin(), values.end(), random);
    std::vector<int64_t> total(ExactSum::kLimbs + 1, 0);
    for (size_t r = 0; r < ranks; ++r) {
      const size_t begin = values.size() * r / ranks, end = values.size() * (r + 1) / ranks;
      ExactSum part;
      part.addSquares(std::span<const float>(values).subspan(begin, end - begin));
      const auto limbs = part.limbs();
      for (size_t i = 0; i < limbs.size(); ++i) total[i] += limbs[i];
    }
    EXPECT_EQ(ExactSum::fromLimbs(total).value(), expected) << ranks << " ranks, seed " << kSeed;
  }
}

TEST(ExactSum, Float64SquaresKeepTheirErrors) {
  const std::vector<double> values = {1 + 0x1p-40, 3.7, -0.1, 1e-150, 1e150};
  std::vector<double> reversed(values.rbegin(), values.rend());
  ExactSum a, b;
  a.addSquares(values);
  for (double v : reversed) b.addSquares(std::vector<double>{v});
  EXPECT_EQ(a.value(), b.value());
  ExactSum one;
  one.addSquares(std::vector<double>{1 + 0x1p-40});
  one.add(-1 - 0x1p-39);
  EXPECT_EQ(one.value(), 0x1p-80);
}

TEST(ExactSum, NotFiniteIsSeen) {
  EXPECT_TRUE(std::isnan(sumOf({1, std::numeric_limits<float>::infinity()})));
  EXPECT_TRUE(std::isnan(sumOf({std::nanf(""), 2})));
  ExactSum sum;
  sum.add(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(ExactSum::fromLimbs(sum.limbs()).value()));
}

TEST(ExactSum, AddsOtherSums) {
  ExactSum a, b;
  a.addSquares(std::vector<float>{3});
  b.addSquares(std::vector<float>{4});
  a.add(b);
  EXPECT_EQ(a.value(), 25);
}

}  // namespace
}  // namespace tutti::parallel
