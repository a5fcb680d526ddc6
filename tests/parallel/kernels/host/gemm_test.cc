// The host's matrix products, at the edges of the tiles that they are cut into.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/elementwise.h"
#include "parallel/kernels/host/staging.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel::host {

void PrintTo(const BlasShape& s, std::ostream* out) {
  *out << "[" << s.m << ", " << s.n << "] over " << s.k << (s.transposeA ? ", a transposed" : "")
       << (s.transposeB ? ", b transposed" : "");
}

namespace {

constexpr int64_t kPadding = 3;  // elements between rows, which no product may touch
constexpr float kUntouched = 77;

/// [rows, columns], and padding after each row.
struct Padded {
  int64_t rows, columns, stride = columns + kPadding;
  std::vector<float> elements = std::vector<float>(static_cast<size_t>(rows * stride), kUntouched);

  float& at(int64_t row, int64_t column) {
    return elements[static_cast<size_t>(row * stride + column)];
  }
  void fill(const char* name) {
    const Random random(1, name);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) at(r, c) = random.normal(r * columns + c);
  }
};

/// Nearest of those that bfloat16 has, so that all products are exact in float32.
float asBrain(float value) {
  uint16_t bits = 0;
  narrow(DType::BFloat16, &value, &bits, 1);
  widen(DType::BFloat16, &bits, &value, 1);
  return value;
}
std::vector<uint16_t> bitsOf(const Padded& x) {
  std::vector<uint16_t> bits(x.elements.size());
  narrow(DType::BFloat16, x.elements.data(), bits.data(), static_cast<int64_t>(bits.size()));
  return bits;
}

class Gemm : public testing::TestWithParam<BlasShape> {
 protected:
  Gemm() {
    setBlasThreads(1);
    a_.fill("a");
    b_.fill("b");
    c_.fill("c");
    for (Padded* x : {&a_, &b_})
      for (float& element : x->elements) element = asBrain(element);
  }
  /// Of c's element, in float64: the product's, and of absolute values.
  struct Sums {
    double value, magnitude;
  };
  Sums expected(int64_t row, int64_t column, double beta) {
    Sums result{beta == 0 ? 0 : beta * c_.at(row, column), 0};
    result.magnitude = std::abs(result.value);
    for (int64_t k = 0; k < s_.k; ++k) {
      const double term = static_cast<double>(s_.transposeA ? a_.at(k, row) : a_.at(row, k)) *
                          (s_.transposeB ? b_.at(column, k) : b_.at(k, column));
      result.value += term;
      result.magnitude += std::abs(term);
    }
    return result;
  }
  /// What `compute` makes of c, whose contents do not matter where beta is 0.
  template <class Compute>
  void check(double beta, const Compute& compute) {
    Padded c = c_;
    if (beta == 0)
      for (int64_t r = 0; r < s_.m; ++r)
        for (int64_t j = 0; j < s_.n; ++j) c.at(r, j) = std::numeric_limits<float>::quiet_NaN();
    compute({c.elements.data(), c.stride});
    // k products and k additions, each rounded once, in any order.
    const double bound = static_cast<double>(s_.k + 2) * std::numeric_limits<float>::epsilon();
    for (int64_t r = 0; r < s_.m; ++r) {
      for (int64_t j = 0; j < s_.n; ++j) {
        const Sums sums = expected(r, j, beta);
        ASSERT_NEAR(c.at(r, j), sums.value, bound * sums.magnitude) << "at " << r << ", " << j;
      }
      for (int64_t j = s_.n; j < c.stride; ++j) ASSERT_EQ(c.at(r, j), kUntouched);
    }
  }
  /// With products that may be split, and without.
  void check(double beta) {
    for (const bool split : {false, true}) {
      setSplitProducts(split);
      check(beta, [&](Matrix<float> c) {
        gemm<float>(s_, {a_.elements.data(), a_.stride}, {b_.elements.data(), b_.stride}, beta, c);
      });
    }
  }
  void checkBrain(double beta) {
    if (!multipliesBrain()) GTEST_SKIP() << "this processor has no AVX512_BF16";
    const auto a = bitsOf(a_), b = bitsOf(b_);
    for (const bool amx : {false, true}) {
      setSplitProducts(amx);
      check(beta, [&](Matrix<float> c) {
        gemmOfBrain(s_, {a.data(), a_.stride}, {b.data(), b_.stride}, beta, c);
      });
    }
  }

  /// What a product said of its parts.
  struct Parts {
    Padded c, taken, calls;
    static void take(void* context, const ProductPart& part) {
      auto& x = *static_cast<Parts*>(context);
      for (int64_t r = part.row; r < part.row + part.rows; ++r)
        for (int64_t j = part.column; j < part.column + part.columns; ++j) {
          x.taken.at(r, j) = x.c.at(r, j);
          x.calls.at(r, j) += 1;
        }
    }
  };
  void checkParts(double beta) {
    Parts x{c_, {s_.m, s_.n}, {s_.m, s_.n}};
    x.calls.elements.assign(x.calls.elements.size(), 0);
    gemm<float>(s_, {a_.elements.data(), a_.stride}, {b_.elements.data(), b_.stride}, beta,
                {x.c.elements.data(), x.c.stride}, Factors::Any, {Parts::take, &x});
    for (int64_t r = 0; r < s_.m; ++r)
      for (int64_t j = 0; j < s_.n; ++j) {
        ASSERT_EQ(x.calls.at(r, j), 1) << "at " << r << ", " << j;
        ASSERT_EQ(x.taken.at(r, j), x.c.at(r, j)) << "at " << r << ", " << j;
      }
  }

  const BlasShape s_ = GetParam();
  Padded a_{s_.transposeA ? s_.k : s_.m, s_.transposeA ? s_.m : s_.k};
  Padded b_{s_.transposeB ? s_.n : s_.k, s_.transposeB ? s_.k : s_.n};
  Padded c_{s_.m, s_.n};
};

TEST_P(Gemm, OverwritesEvenNaN) { check(0); }
TEST_P(Gemm, Adds) { check(1); }
TEST_P(Gemm, SaysOfEachElementOnceThatItIsDone) {
  for (const bool split : {false, true})
    for (const double beta : {0.0, 1.0}) {
      setSplitProducts(split);
      checkParts(beta);
    }
}
TEST_P(Gemm, OverwritesEvenNaNWithProductsOfBrain) { checkBrain(0); }
TEST_P(Gemm, AddsProductsOfBrain) { checkBrain(1); }

std::vector<BlasShape> shapes() {
  std::vector<BlasShape> result;
  for (const BlasShape& s : {BlasShape{1, 1, 1},
                             {31, 128, 128},
                             {32, 64, 128},
                             {33, 17, 5},
                             {37, 15, 16},
                             {41, 16, 257},
                             {47, 33, 255},
                             {52, 48, 33},
                             {59, 65, 256},
                             {65, 127, 513},
                             {33, 100, 40},
                             {64, 1, 700},
                             {130, 300, 64},
                             {32, 512, 512},
                             {32, 512, 513},
                             {200, 1090, 70},  // behind these a block of rows and columns ends,
                             {50, 520, 1030},  // or the k that are copied together
                             {13, 70, 2060}})
    for (const bool a : {false, true})
      for (const bool b : {false, true}) result.push_back({s.m, s.n, s.k, a, b});
  for (int64_t rows = 1; rows <= 12; ++rows)  // of tiles of few and of many columns
    for (const int64_t columns : {20, 100}) result.push_back({rows, columns, 9});
  return result;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Gemm, testing::ValuesIn(shapes()));

void expectBitsOfRowAndColumnAlone() {
  constexpr int64_t m = 61, n = 530, k = 600;
  setBlasThreads(1);
  if (availableElementwise().sets[0]->name != std::string("avx512"))
    GTEST_SKIP() << "there are no tiles without AVX-512, and OpenBLAS has no such rule";
  for (const bool transposed : {false, true}) {
    Padded a{transposed ? k : m, transposed ? m : k}, b{k, n}, c{m, n}, brain{m, n};
    a.fill("a");
    b.fill("b");
    const auto aBits = bitsOf(a), bBits = bitsOf(b);
    gemm<float>({m, n, k, transposed}, {a.elements.data(), a.stride}, {b.elements.data(), b.stride},
                0, {c.elements.data(), c.stride});
    if (multipliesBrain())
      gemmOfBrain({m, n, k, transposed}, {aBits.data(), a.stride}, {bBits.data(), b.stride}, 0,
                  {brain.elements.data(), brain.stride});
    for (int64_t row = 0; row < m; row += 7)
      for (int64_t column = 0; column < n; ++column) {
        Padded alone{1, 1};
        const int64_t from = transposed ? row : row * a.stride;
        gemm<float>({1, 1, k, transposed}, {a.elements.data() + from, a.stride},
                    {&b.at(0, column), b.stride}, 0, {alone.elements.data(), alone.stride});
        ASSERT_EQ(alone.at(0, 0), c.at(row, column)) << row << ", " << column;
        if (!multipliesBrain()) continue;
        gemmOfBrain({1, 1, k, transposed}, {aBits.data() + from, a.stride},
                    {bBits.data() + column, b.stride}, 0, {alone.elements.data(), alone.stride});
        ASSERT_EQ(alone.at(0, 0), brain.at(row, column)) << row << ", " << column;
      }
  }
}

// Whatever tile it lies in: so ranks that cut rows or columns otherwise have the same bits.
TEST(GemmTiles, AnElementsBitsAreThoseOfItsRowAndColumnAlone) {
  for (const bool split : {false, true}) {
    setSplitProducts(split);
    expectBitsOfRowAndColumnAlone();
  }
}

}  // namespace
}  // namespace tutti::parallel::host
