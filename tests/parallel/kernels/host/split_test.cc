// Products of float32 whose factors are split into three bfloat16 each, as processors with AMX
// compute them: as accurate as products of float32, up to the ends of their range. And products of
// bfloat16, which these processors compute as they are.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/staging.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel::host {
namespace {

constexpr int64_t kSize = 75;  // no multiple of what is copied together

/// [kSize, kSize].
struct Square {
  std::vector<float> elements = std::vector<float>(kSize * kSize);

  float& at(int64_t row, int64_t column) {
    return elements[static_cast<size_t>(row * kSize + column)];
  }
  Matrix<const float> matrix() const { return {elements.data(), kSize}; }
};

/// Of all signs and of many sizes, with all 24 bits.
Square anyNumbers(const char* name) {
  Square x;
  const Random random(1, name);
  for (int64_t i = 0; i < kSize * kSize; ++i)
    x.elements[static_cast<size_t>(i)] =
        std::ldexp(random.normal(i), static_cast<int>(i % 61) - 30);
  return x;
}

Square onTheDiagonal(const std::vector<float>& values) {
  Square x;
  for (int64_t i = 0; i < kSize; ++i) x.at(i, i) = values[static_cast<size_t>(i)];
  return x;
}

class Split : public testing::Test {
 protected:
  Split() { setBlasThreads(1); }
  void SetUp() override {
    setSplitProducts(true);
    if (!splitsProducts()) GTEST_SKIP() << "this processor has no AMX";
  }
  static Square product(const Square& a, const Square& b, bool transposeA = false,
                        bool transposeB = false) {
    Square c;
    gemm<float>({kSize, kSize, kSize, transposeA, transposeB}, a.matrix(), b.matrix(), 0,
                {c.elements.data(), kSize});
    return c;
  }
};

// Three pieces of 8 bits are all 24, and adding them up again is exact.
TEST_F(Split, AProductWithOneIsTheFactorItself) {
  Square x = anyNumbers("x");
  const Square one = onTheDiagonal(std::vector<float>(kSize, 1.0F));
  for (const bool transposed : {false, true}) {
    Square left = product(x, one, transposed, transposed),
           right = product(one, x, false, transposed);
    for (int64_t r = 0; r < kSize; ++r)
      for (int64_t c = 0; c < kSize; ++c) {
        ASSERT_EQ(left.at(r, c), transposed ? x.at(c, r) : x.at(r, c)) << r << ", " << c;
        ASSERT_EQ(right.at(r, c), transposed ? x.at(c, r) : x.at(r, c)) << r << ", " << c;
      }
  }
}

// What is left out is below 2^-23.9 of the product. The sum of the others is rounded by 2^-24 of
// it when the largest is added, and before by as much of what is below 2^-6 of it.
TEST_F(Split, AProductIsAsGoodAsTwoRoundings) {
  Square x = anyNumbers("x");
  std::vector<float> factors;
  const Random random(2, "factors");
  for (int64_t i = 0; i < kSize; ++i) factors.push_back(random.normal(i));
  Square y = product(x, onTheDiagonal(factors));
  const double bound = std::exp2(-23.9) + std::exp2(-24) * (1 + 5 * std::exp2(-6));
  double worst = 0;
  for (int64_t r = 0; r < kSize; ++r)
    for (int64_t c = 0; c < kSize; ++c) {
      const double exact = static_cast<double>(x.at(r, c)) * factors[static_cast<size_t>(c)];
      worst = std::max(worst, std::abs(y.at(r, c) - exact) / std::abs(exact));
    }
  std::printf("split products: worst 2^%.2f\n", std::log2(worst));
  EXPECT_LE(worst, bound);
}

// Pieces that are denormal count as 0, each time at most 2^-126.
TEST_F(Split, SmallNumbersAreOffByTheLeastNormalOne) {
  Square x = anyNumbers("x");
  for (float& element : x.elements) element = std::ldexp(element, -90);
  Square y = product(x, onTheDiagonal(std::vector<float>(kSize, 1.0F)));
  for (int64_t r = 0; r < kSize; ++r)
    for (int64_t c = 0; c < kSize; ++c)
      ASSERT_LE(std::abs(static_cast<double>(y.at(r, c)) - x.at(r, c)), 2 * std::exp2(-126));
}

TEST_F(Split, LargeNumbersAreExactAndInfinityIsNotHidden) {
  Square x;
  x.at(0, 0) = 3.38e38F;
  x.at(1, 0) = -3.38e38F;
  x.at(2, 0) = std::numeric_limits<float>::infinity();
  x.at(3, 0) = std::numeric_limits<float>::quiet_NaN();
  x.at(4, 0) = std::bit_cast<float>(0x7fffffffU);  // a NaN, too
  x.at(5, 0) = std::bit_cast<float>(0xffffffffU);
  x.at(6, 0) = std::numeric_limits<float>::max();
  Square y = product(x, onTheDiagonal(std::vector<float>(kSize, 1.0F)));
  EXPECT_EQ(y.at(0, 0), 3.38e38F);
  EXPECT_EQ(y.at(1, 0), -3.38e38F);
  for (int64_t r = 2; r < 7; ++r) EXPECT_FALSE(std::isfinite(y.at(r, 0))) << r;
  EXPECT_EQ(y.at(7, 0), 0);
}

// Who asks for products of float32 gets them.
TEST_F(Split, IsLeftOutWhereItIsNotWanted) {
  const auto of = [](bool split) {
    setSplitProducts(split);
    Square c = product(anyNumbers("a"), anyNumbers("b"));
    return c.elements;
  };
  EXPECT_NE(of(true), of(false));
  EXPECT_EQ(of(false), of(false));
}

std::vector<uint16_t> bitsOf(const Square& x) {
  std::vector<uint16_t> bits(x.elements.size());
  narrow(DType::BFloat16, x.elements.data(), bits.data(), kSize * kSize);
  return bits;
}
std::vector<float> productOfBrain(const Square& a, const Square& b) {
  Square c;
  const auto left = bitsOf(a), right = bitsOf(b);
  gemmOfBrain({kSize, kSize, kSize}, {left.data(), kSize}, {right.data(), kSize}, 0,
              {c.elements.data(), kSize});
  return c.elements;
}

// A factor of bfloat16 is one piece, and a product with one is exact.
TEST_F(Split, OfBrainAProductWithOneIsTheFactorItself) {
  const Square x = anyNumbers("x");
  const std::vector<float> product =
      productOfBrain(x, onTheDiagonal(std::vector<float>(kSize, 1.0F)));
  std::vector<float> expected(product.size());
  widen(DType::BFloat16, bitsOf(x).data(), expected.data(), kSize * kSize);
  EXPECT_EQ(product, expected);
}

// Also of bfloat16 AMX is used where it may be, and adds in an order of its own.
TEST_F(Split, OfBrainIsLeftOutWhereItIsNotWanted) {
  const auto of = [](bool amx) {
    setSplitProducts(amx);
    EXPECT_TRUE(!amx || prefersBrain());
    return productOfBrain(anyNumbers("a"), anyNumbers("b"));
  };
  EXPECT_NE(of(true), of(false));
  EXPECT_EQ(of(false), of(false));
}

}  // namespace
}  // namespace tutti::parallel::host
