// Products with epilogues on every device: the bits of the calls that do one step each, and what is
// refused. The kernels of a GPU are compared with float64 in cuda/gemm.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "parallel/tensor/random.h"
#include "tests/parallel/kernels/tested_kernels.h"

namespace tutti::parallel {
namespace {

constexpr int64_t kRows = 5, kColumns = 6, kDepth = 9;
constexpr Activation kActivations[] = {Activation::None, Activation::Gelu, Activation::GeluBackward,
                                       Activation::SwiGlu, Activation::SwiGluBackward};

class Epilogues : public testing::TestWithParam<TestedDevice> {
 protected:
  Tensor make(DType type, const Shape& shape) {
    const Tensor x = tested_->allocate(type, shape);
    if (x.bytes() > 0) std::memset(x.data, 0, x.bytes());
    return x;
  }
  /// A matrix of normal numbers, between columns of others.
  Tensor random(DType type, int64_t rows, int64_t columns, int64_t gap = 2) {
    const Tensor whole = make(type, {rows, columns + gap}),
                 doubles = make(DType::Float64, whole.shape);
    const Random values(3, "epilogue");
    for (int64_t i = 0; i < doubles.count(); ++i) doubles.as<double>()[i] = values.normal(next_++);
    kernels_.copy(doubles, whole);
    tested_->finish();
    return whole.part(1, gap / 2, columns);
  }
  Tensor copied(const Tensor& x) {
    const Tensor y = make(x.type, {x.shape[0], x.shape[1] + 2}).part(1, 1, x.shape[1]);
    kernels_.copy(x, y);
    return y;
  }
  void expectSameBits(const Tensor& a, const Tensor& b, const char* what) {
    tested_->finish();
    const size_t bytes = sizeOf(a.type) * static_cast<size_t>(a.shape[1]);
    const auto row = [](const Tensor& x, int64_t r) {
      return static_cast<const char*>(x.data) +
             static_cast<int64_t>(sizeOf(x.type)) * r * x.strides[0];
    };
    for (int64_t r = 0; r < a.shape[0]; ++r)
      EXPECT_EQ(std::memcmp(row(a, r), row(b, r), bytes), 0) << what << ", row " << r;
  }
  double largestOf(const Tensor& x) {
    tested_->finish();
    double largest = 0;
    if (x.data == nullptr) return largest;
    const bool isMatrix = x.shape.rank() == 2;
    for (int64_t r = 0; r < (isMatrix ? x.shape[0] : 1); ++r)
      for (int64_t i = 0; i < x.shape[-1]; ++i) {
        const int64_t place = (isMatrix ? r * x.strides[0] : 0) + i;
        largest = std::max(largest, std::abs(x.type == DType::Float64 ? x.as<double>()[place]
                                                                      : x.as<float>()[place]));
      }
    return largest;
  }
  /// What no number of a product and its epilogue exceeds: a sum with its bias, times what the
  /// activation multiplies it by, whose slopes are below 2, with the residual and what was in c.
  double mostOf(const GemmArgs& args) {
    const GemmEpilogue& e = args.epilogue;
    const double sum =
        largestOf(args.a) * largestOf(args.b) * static_cast<double>(kDepth) + largestOf(e.bias);
    return 2 * sum * std::max(1.0, largestOf(e.inner)) + largestOf(e.residual) + largestOf(args.c);
  }
  /// The same bits on the host. Elsewhere a product and a sum may be one instruction in one kernel
  /// and two in another, so each of the at most eight numbers on an element's way (its sum, three
  /// of a slope, two products, two additions) may be rounded once more, by half a unit of `most`.
  void expectSameResult(const Tensor& a, const Tensor& b, double most, const char* what) {
    if (GetParam().name.starts_with("Host")) return expectSameBits(a, b, what);
    tested_->finish();
    const auto at = [](const Tensor& x, int64_t row, int64_t column) {
      const int64_t place = row * x.strides[0] + column;
      return x.type == DType::Float64 ? x.as<double>()[place] : x.as<float>()[place];
    };
    const double unit = a.type == DType::Float64 ? 0x1p-52 : 0x1p-23;
    for (int64_t r = 0; r < a.shape[0]; ++r)
      for (int64_t i = 0; i < a.shape[1]; ++i)
        EXPECT_NEAR(at(a, r, i), at(b, r, i), 8 * unit / 2 * most)
            << what << ", row " << r << ", column " << i;
  }
  GemmArgs product(DType type, Activation activation);
  void bySteps(const GemmArgs& args);

  const std::unique_ptr<TestedKernels> tested_ = GetParam().make();
  Kernels& kernels_ = tested_->kernels();
  uint64_t next_ = 0;
};

/// With everything that an epilogue has but a scale.
GemmArgs Epilogues::product(DType type, Activation activation) {
  const bool isGated = activation >= Activation::SwiGlu;
  const int64_t columns = activation == Activation::SwiGluBackward ? 2 * kColumns : kColumns;
  GemmArgs args{.a = random(type, kRows, kDepth),
                .b = random(type, kDepth, kColumns),
                .c = random(type, kRows, columns),
                .epilogue = {.activation = activation,
                             .bias = random(type, 1, kColumns, 0).view({kColumns}),
                             .residual = random(type, kRows, columns)}};
  if (activation != Activation::None)
    args.epilogue.inner = random(type, kRows, isGated ? 2 * kColumns : kColumns);
  return args;
}

/// By calls of one step each, which take contiguous operands.
void Epilogues::bySteps(const GemmArgs& args) {
  const GemmEpilogue& e = args.epilogue;
  const DType type = args.c.type;
  const Tensor x = make(type, {kRows, kColumns}), y = make(type, args.c.shape);
  kernels_.gemm({.a = args.a, .b = args.b, .c = x});
  if (e.bias.data != nullptr) kernels_.addBias(e.bias, x);
  Tensor inner;
  if (e.inner.data != nullptr) {
    if (e.activation == Activation::Gelu) kernels_.copy(x, e.inner);
    if (e.activation == Activation::SwiGlu) kernels_.copy(x, e.inner.part(1, kColumns, kColumns));
    inner = make(type, e.inner.shape);
    kernels_.copy(e.inner, inner);
  }
  switch (e.activation) {
    case Activation::None: kernels_.copy(x, y); break;
    case Activation::Gelu: kernels_.gelu(x, y); break;
    case Activation::GeluBackward: kernels_.geluBackward(x, inner, y); break;
    case Activation::SwiGlu: kernels_.swiGlu(inner, y); break;
    case Activation::SwiGluBackward: kernels_.swiGluBackward(x, inner, y); break;
  }
  if (e.residual.data != nullptr) kernels_.add(e.residual, y);
  if (args.beta == 0)
    kernels_.copy(y, args.c);
  else
    kernels_.add(y, args.c);
}

class EpilogueBits : public Epilogues {};

// Of 16 bits a GPU rounds once where calls round at each step.
TEST_P(EpilogueBits, AreThoseOfOneCallForEachStep) {
  std::vector<DType> types{DType::Float64, DType::Float32};
  if (GetParam().name.starts_with("Host"))
    types.insert(types.end(), {DType::BFloat16, DType::Float16});
  for (const DType type : types)
    for (const Activation activation : kActivations)
      for (const double beta : {0.0, 1.0})
        for (int leftOut = 0; leftOut < 8; ++leftOut) {
          if (activation == Activation::None && leftOut % 4 == 3) continue;  // no epilogue
          SCOPED_TRACE(testing::Message()
                       << toString(type) << ", activation " << static_cast<int>(activation)
                       << ", beta " << beta << ", left out " << leftOut);
          GemmArgs args = product(type, activation);
          args.beta = beta;
          if (leftOut % 2 != 0) args.epilogue.bias = {};
          if (leftOut / 2 % 2 != 0) args.epilogue.residual = {};
          if (leftOut / 4 != 0 && activation == Activation::Gelu) args.epilogue.inner = {};
          GemmArgs steps = args;
          steps.c = copied(args.c);
          if (args.epilogue.inner.data != nullptr)
            steps.epilogue.inner = copied(args.epilogue.inner);
          const double most =
              GetParam().name.starts_with("Host") ? 0 : mostOf(args);  // where it matters
          kernels_.gemm(args);
          bySteps(steps);
          expectSameResult(args.c, steps.c, most, "c");
          if (args.epilogue.inner.data != nullptr)
            expectSameResult(args.epilogue.inner, steps.epilogue.inner, most, "inner");
        }
}

// By a power of two, which rounds nothing: what comes behind it is as if a were larger.
TEST_P(EpilogueBits, AreScaledFirst) {
  for (const DType type : {DType::Float64, DType::Float32, DType::BFloat16}) {
    GemmArgs args = product(type, Activation::Gelu), larger = args;
    args.epilogue.scale = 4;
    larger.a = make(type, {kRows, kDepth});
    for (int i = 0; i < 4; ++i) kernels_.add(args.a, larger.a);
    larger.c = copied(args.c);
    larger.epilogue.inner = copied(args.epilogue.inner);
    kernels_.gemm(args);
    kernels_.gemm(larger);
    expectSameBits(args.c, larger.c, "c");
    expectSameBits(args.epilogue.inner, larger.epilogue.inner, "inner");
  }
}

TEST_P(Epilogues, RefuseOperandsThatDoNotFit) {
  for (const Activation activation : kActivations) {
    const GemmArgs right = product(DType::Float32, activation);
    EXPECT_NO_THROW(kernels_.gemm(right));
    const auto expectRefused = [&](Tensor GemmEpilogue::*operand, const Tensor& wrong) {
      GemmArgs args = right;
      args.epilogue.*operand = wrong;
      try {
        kernels_.gemm(args);
        ADD_FAILURE() << "activation " << static_cast<int>(activation) << " took " << wrong;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
      }
    };
    for (Tensor GemmEpilogue::*const operand :
         {&GemmEpilogue::inner, &GemmEpilogue::bias, &GemmEpilogue::residual}) {
      const Tensor& x = right.epilogue.*operand;
      Shape longer = x.data == nullptr ? Shape{kRows, kColumns} : x.shape;
      if (x.data != nullptr) longer[-1] += 1;
      expectRefused(operand, make(DType::Float32, longer));
      if (x.data == nullptr) continue;
      expectRefused(operand, make(DType::Float64, x.shape));
      Tensor apart = x;
      apart.strides[-1] = 2;
      expectRefused(operand, apart);
    }
    if (activation != Activation::None && activation != Activation::Gelu)
      expectRefused(&GemmEpilogue::inner, {});
    GemmArgs halves = right;
    halves.c = make(DType::Float32, {kRows, 3 * kColumns - right.c.shape[1]});
    EXPECT_THROW(kernels_.gemm(halves), Error);
  }
}

const auto nameOfDevice = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Devices, Epilogues, testing::ValuesIn(testedDevices()), nameOfDevice);
INSTANTIATE_TEST_SUITE_P(Devices, EpilogueBits, testing::ValuesIn(computingDevices()),
                         nameOfDevice);

}  // namespace
}  // namespace tutti::parallel
