// Kernels in bfloat16 and float16, on every device: every result is that of float32 on the same
// operands, rounded once.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "parallel/kernels/host/staging.h"
#include "parallel/tensor/random.h"
#include "tests/parallel/kernels/tested_kernels.h"

namespace tutti::parallel {
namespace {

float widened(uint16_t value, DType type = DType::BFloat16) {
  float result = 0;
  host::widen(type, &value, &result, 1);
  return result;
}
uint16_t narrowed(float value, DType type = DType::BFloat16) {
  uint16_t result = 0;
  host::narrow(type, &value, &result, 1);
  return result;
}

TEST(BFloat16, ComesBackAsItWas) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float wide = widened(bits);
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(widened(narrowed(wide)))) << i;
    else
      EXPECT_EQ(narrowed(wide), bits) << i;
  }
}

// Of the two neighbours the nearer one, and of two as near the even one.
TEST(BFloat16, IsRoundedToNearestEven) {
  const Random random(3, "floats");
  for (uint64_t i = 0; i < 200'000; ++i) {
    auto bits = static_cast<uint32_t>(random.bits(i));
    if (i % 4 == 0) bits = (bits & 0xffff0000u) | 0x8000u;  // half way
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    const uint16_t below = static_cast<uint16_t>(bits >> 16),
                   above = static_cast<uint16_t>(below + 1);
    const double toBelow = std::fabs(static_cast<double>(value) - widened(below));
    // Beyond the largest value the next one would be 2^128.
    const double next = std::isinf(widened(above)) ? std::copysign(0x1p128, value) : widened(above);
    const double toAbove = std::fabs(next - static_cast<double>(value));
    const bool up = toAbove < toBelow || (toAbove == toBelow && below % 2 == 1);
    EXPECT_EQ(narrowed(value), up ? above : below) << value;
  }
  EXPECT_TRUE(std::isnan(widened(narrowed(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isinf(widened(narrowed(std::numeric_limits<float>::max()))));
}

#ifdef __FLT16_MANT_DIG__
// The compiler's own type converts as IEEE 754 says.
TEST(Float16, IsThatOfTheCompiler) {
  const auto expected = [](float value) { return std::bit_cast<uint16_t>(_Float16(value)); };
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float wide = widened(bits, DType::Float16);
    const auto right = static_cast<float>(std::bit_cast<_Float16>(bits));
    if (std::isnan(right)) {
      EXPECT_TRUE(std::isnan(wide) &&
                  std::isnan(widened(narrowed(wide, DType::Float16), DType::Float16)));
      continue;
    }
    EXPECT_EQ(std::bit_cast<uint32_t>(wide), std::bit_cast<uint32_t>(right)) << i;
    EXPECT_EQ(narrowed(wide, DType::Float16), bits) << i;
    // Half way to the next one, and on either side of that.
    for (const int32_t near : {0xfff, 0x1000, 0x1001}) {
      const float value =
          std::bit_cast<float>(std::bit_cast<uint32_t>(wide) + static_cast<uint32_t>(near));
      if (std::isnan(value)) continue;
      EXPECT_EQ(narrowed(value, DType::Float16), expected(value)) << value;
    }
  }
  const Random random(5, "floats");
  for (uint64_t i = 0; i < 300'000; ++i) {
    auto bits = static_cast<uint32_t>(random.bits(i));
    if (i % 2 == 0) bits = (bits & 0x87ffffffu) | 0x30000000u;  // of a size that float16 has
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    EXPECT_EQ(narrowed(value, DType::Float16), expected(value)) << value;
  }
}
#endif

/// Operands in both types: what is made for one is made, with the same values, for the other.
class Twins : public testing::TestWithParam<std::tuple<TestedDevice, DType>> {
 protected:
  struct Twin {
    Tensor narrow, wide;
  };
  Twin make(const Shape& shape, double size = 1) {
    Twin twin{tested_->allocate(type_, shape), tested_->allocate(DType::Float32, shape)};
    const Random random(7, "operand " + std::to_string(made_++));
    for (int64_t i = 0; i < shape.count(); ++i) {
      const float value = static_cast<float>(size * random.normal(static_cast<uint64_t>(i)));
      static_cast<uint16_t*>(twin.narrow.data)[i] = narrowed(value, type_);
      twin.wide.as<float>()[i] = widened(narrowed(value, type_), type_);
    }
    return twin;
  }
  void expectSame(const Twin& twin, const char* what) {
    tested_->finish();
    for (int64_t i = 0; i < twin.wide.count(); ++i)
      ASSERT_EQ(static_cast<uint16_t*>(twin.narrow.data)[i],
                narrowed(twin.wide.as<float>()[i], type_))
          << what << ", element " << i;
  }
  void expectSameBits(const Tensor& a, const Tensor& b, const char* what) {
    tested_->finish();
    ASSERT_EQ(a.type, b.type);
    EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes()), 0) << what;
  }

  const DType type_ = std::get<DType>(GetParam());
  const std::unique_ptr<TestedKernels> tested_ = std::get<TestedDevice>(GetParam()).make();
  Kernels& kernels_ = tested_->kernels();
  Arena arena_{"scratch"};
  int made_ = 0;
};

// Of 16 bits a processor's instructions for bfloat16 round each sum once, as of float32 the fused
// instruction does, but in another order: each of 7, and of 2^-24 of it. A GPU's tensor cores add
// up the products, those of float32 its lanes do. Products are exact in both. Lanes round each of 7
// sums, by 2^-24 of it. Tensor cores add all terms at once, shifted to the exponent of the largest,
// and drop what is below 2^-23 of that: as much of each of 8 terms, and of the sum. Of products of
// bfloat16, which have 16 bits, little is ever dropped.
TEST_P(Twins, Gemm) {
  constexpr int64_t kDepth = 7;
  const Twin a = make({5, kDepth}), b = make({9, kDepth}), c = make({5, 9});
  // By how much an element may be another one before it is rounded to its type.
  const auto most = [&](int64_t i) {
    const std::string& device = std::get<TestedDevice>(GetParam()).name;
    if (device == "HostPortable" || (device != "Cuda" && type_ != DType::BFloat16)) return 0.0;
    const float *const row = a.wide.as<float>() + i / 9 * kDepth, *const column =
                                                                      b.wide.as<float>() +
                                                                      i % 9 * kDepth;
    double terms = std::abs(c.wide.as<float>()[i]);
    for (int64_t d = 0; d < kDepth; ++d) terms += 2 * std::abs(double{row[d]} * column[d]);
    return (kDepth + 2 * (kDepth + 2)) * 0x1p-24 * terms;
  };
  for (const double beta : {0.0, 1.0}) {
    kernels_.gemm({.a = a.narrow, .b = b.narrow, .c = c.narrow, .transposeB = true, .beta = beta});
    kernels_.gemm({.a = a.wide, .b = b.wide, .c = c.wide, .transposeB = true, .beta = beta});
    tested_->finish();
    for (int64_t i = 0; i < c.wide.count(); ++i) {
      const auto rounded = [&](double value) {
        return widened(narrowed(static_cast<float>(value), type_), type_);
      };
      float& wide = c.wide.as<float>()[i];
      const float narrow = widened(static_cast<uint16_t*>(c.narrow.data)[i], type_);
      ASSERT_GE(narrow, rounded(wide - most(i))) << "c, element " << i;
      ASSERT_LE(narrow, rounded(wide + most(i))) << "c, element " << i;
      wide = narrow;  // what was rounded is what both add to next
    }
  }
  // A gradient in float32 of operands of 16 bits.
  const Tensor sum = tested_->allocate(DType::Float32, {5, 9});
  kernels_.gemm({.a = a.narrow, .b = b.narrow, .c = sum, .transposeB = true});
  kernels_.gemm({.a = a.wide, .b = b.wide, .c = c.wide, .transposeB = true});
  tested_->finish();
  for (int64_t i = 0; i < sum.count(); ++i)
    ASSERT_NEAR(sum.as<float>()[i], c.wide.as<float>()[i], most(i)) << "sum, element " << i;
}

TEST_P(Twins, GemmOfStridedRows) {
  const Twin whole = make({6, 10}), b = make({4, 3}), c = make({6, 3});
  const auto part = [](Tensor x) {
    x.shape = Shape{6, 4};  // the first four columns
    return x;
  };
  kernels_.gemm({.a = part(whole.narrow), .b = b.narrow, .c = c.narrow});
  kernels_.gemm({.a = part(whole.wide), .b = b.wide, .c = c.wide});
  expectSame(c, "c");
}

TEST_P(Twins, Norms) {
  const Twin x = make({5, 12}), dy = make({5, 12}), weight = make({12}), bias = make({12});
  const Twin y = make({5, 12}), dx = make({5, 12});
  Tensor mean[2], rstd[2], dWeight[2];
  for (int i = 0; i < 2; ++i) {
    mean[i] = tested_->allocate(DType::Float32, {5});
    rstd[i] = tested_->allocate(DType::Float32, {5});
    dWeight[i] = tested_->allocate(DType::Float32, {12});
    kernels_.fillZero(dWeight[i]);
  }
  const auto pick = [](const Twin& t, int i) { return i == 0 ? t.narrow : t.wide; };
  for (int i = 0; i < 2; ++i) {
    kernels_.layerNorm({.x = pick(x, i),
                        .weight = pick(weight, i),
                        .bias = pick(bias, i),
                        .y = pick(y, i),
                        .mean = mean[i],
                        .rstd = rstd[i]});
    kernels_.layerNormBackward({.dy = pick(dy, i),
                                .x = pick(x, i),
                                .weight = pick(weight, i),
                                .mean = mean[i],
                                .rstd = rstd[i],
                                .residual = pick(dy, i),
                                .dx = pick(dx, i)});
  }
  expectSame(y, "layerNorm");
  expectSame(dx, "layerNormBackward");
  expectSameBits(mean[0], mean[1], "mean");
  expectSameBits(rstd[0], rstd[1], "rstd");
  for (int i = 0; i < 2; ++i) {
    kernels_.rmsNorm(
        {.x = pick(x, i), .weight = pick(weight, i), .y = pick(y, i), .rstd = rstd[i]});
    kernels_.rmsNormBackward({.dy = pick(dy, i),
                              .x = pick(x, i),
                              .weight = pick(weight, i),
                              .rstd = rstd[i],
                              .residual = {},
                              .dx = pick(dx, i)});
    kernels_.rmsNormWeights(
        {.dy = pick(dy, i), .x = pick(x, i), .rstd = rstd[i], .dWeight = dWeight[i], .beta = 1});
  }
  expectSame(y, "rmsNorm");
  expectSame(dx, "rmsNormBackward");
  expectSameBits(dWeight[0], dWeight[1], "rmsNormWeights");
}

TEST_P(Twins, Attention) {
  const Twin qkv = make({2, 5, 16}), out = make({2, 5, 8}), dOut = make({2, 5, 8});
  const Twin dQkv = make({2, 5, 16});
  Tensor logSumExp[2];
  for (Tensor& t : logSumExp) t = tested_->allocate(DType::Float32, {2, 2, 5});
  kernels_.attention({qkv.narrow, out.narrow, logSumExp[0], 2, 1}, arena_);
  kernels_.attention({qkv.wide, out.wide, logSumExp[1], 2, 1}, arena_);
  expectSame(out, "out");
  expectSameBits(logSumExp[0], logSumExp[1], "logSumExp");
  for (int64_t i = 0; i < out.wide.count(); ++i)
    out.wide.as<float>()[i] = widened(static_cast<uint16_t*>(out.narrow.data)[i], type_);
  kernels_.attentionBackward({dOut.narrow, qkv.narrow, out.narrow, logSumExp[0], dQkv.narrow, 2, 1},
                             arena_);
  kernels_.attentionBackward({dOut.wide, qkv.wide, out.wide, logSumExp[1], dQkv.wide, 2, 1},
                             arena_);
  expectSame(dQkv, "dQkv");
}

TEST_P(Twins, ElementwiseAndLosses) {
  const Twin x = make({3, 8}), y = make({3, 4}), dx = make({3, 8}), dy = make({3, 4});
  kernels_.swiGlu(x.narrow, y.narrow);
  kernels_.swiGlu(x.wide, y.wide);
  expectSame(y, "swiGlu");
  kernels_.swiGluBackward(dy.narrow, x.narrow, dx.narrow);
  kernels_.swiGluBackward(dy.wide, x.wide, dx.wide);
  expectSame(dx, "swiGluBackward");
  kernels_.gelu(x.narrow, dx.narrow);
  kernels_.gelu(x.wide, dx.wide);
  expectSame(dx, "gelu");
  const Twin sum = make({3, 8});
  kernels_.add(x.narrow, sum.narrow);
  kernels_.add(x.wide, sum.wide);
  expectSame(sum, "add");
  const Tensor labels = tested_->allocate(DType::Int32, {3});
  labels.as<int32_t>()[0] = 1, labels.as<int32_t>()[1] = -1, labels.as<int32_t>()[2] = 7;
  const Twin logits = make({3, 8}, 3);
  const Tensor statistics = tested_->allocate(DType::Float32, {1, 3, 3});
  const auto loss = [&](const Tensor& of) {
    kernels_.logitStatistics({.logits = of, .labels = labels, .statistics = statistics});
    return kernels_.crossEntropy({.logits = of, .labels = labels, .statistics = statistics});
  };
  EXPECT_EQ(loss(logits.narrow), loss(logits.wide));
  expectSame(logits, "crossEntropy");
  const Twin gaps = make({3, 16}, 3);  // of which 13 columns are logits
  EXPECT_EQ(loss(gaps.narrow.part(1, 0, 13)), loss(gaps.wide.part(1, 0, 13)));
  expectSame(gaps, "crossEntropy of rows with gaps");
  ExactSum a, b;
  kernels_.addSquares({&y.narrow, 1}, a);
  for (int64_t i = 0; i < y.wide.count(); ++i)
    y.wide.as<float>()[i] = widened(static_cast<uint16_t*>(y.narrow.data)[i], type_);
  kernels_.addSquares({&y.wide, 1}, b);
  EXPECT_EQ(a.value(), b.value());
}

// Master weights in float32, gradients in bfloat16, and the rounded copy that computes.
TEST_P(Twins, AdamWOnMasterWeights) {
  const Twin gradient = make({40});
  Tensor weight[2], first[2], second[2];
  for (int i = 0; i < 2; ++i) {
    for (Tensor* t : {&weight[i], &first[i], &second[i]}) {
      *t = tested_->allocate(DType::Float32, {40});
      kernels_.fillZero(*t);
    }
    const AdamWTensors tensors{.weight = weight[i],
                               .gradient = i == 0 ? gradient.narrow : gradient.wide,
                               .first = first[i],
                               .second = second[i]};
    kernels_.adamW({.tensors = {&tensors, 1}, .learningRate = 0.1});
  }
  expectSameBits(weight[0], weight[1], "weight");
  expectSameBits(second[0], second[1], "second");
  const Tensor copy = tested_->allocate(type_, {40});
  kernels_.copy(weight[0], copy);
  expectSame({copy, weight[0]}, "copy");
  const Tensor doubles = tested_->allocate(DType::Float64, {40});
  kernels_.copy(copy, doubles);
  tested_->finish();
  for (int64_t i = 0; i < 40; ++i)
    EXPECT_EQ(doubles.as<double>()[i], widened(static_cast<uint16_t*>(copy.data)[i], type_));
}

INSTANTIATE_TEST_SUITE_P(Types, Twins,
                         testing::Combine(testing::ValuesIn(computingDevices()),
                                          testing::Values(DType::BFloat16, DType::Float16)),
                         [](const auto& made) {
                           return std::get<TestedDevice>(made.param).name + "_" +
                                  toString(std::get<DType>(made.param));
                         });

}  // namespace
}  // namespace tutti::parallel
