// Batches of products on every device: the bits of the products one by one, and what is refused.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "parallel/kernels/operands.h"
#include "parallel/tensor/random.h"
#include "tests/parallel/kernels/tested_kernels.h"

namespace tutti::parallel {
namespace {

constexpr int64_t kBatch = 3, kRows = 8, kColumns = 16, kDepth = 24;

class GemmBatches : public testing::TestWithParam<TestedDevice> {
 protected:
  Tensor random(DType type, const Shape& shape) {
    const Tensor x = tested_->allocate(type, shape);
    const Tensor doubles = tested_->allocate(DType::Float64, shape);
    const Random values(7, "batch");
    for (int64_t i = 0; i < doubles.count(); ++i) doubles.as<double>()[i] = values.normal(next_++);
    kernels_.copy(doubles, x);
    tested_->finish();
    return x;
  }
  Tensor copied(const Tensor& x) {
    const Tensor y = tested_->allocate(x.type, x.shape);
    kernels_.copy(x, y);
    return y;
  }
  void expectSameBits(const Tensor& a, const Tensor& b, const char* what) {
    tested_->finish();
    EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes()), 0) << what;
  }
  /// As each product has its own of everything.
  GemmArgs batch(DType type, Activation activation) {
    const int64_t inner = activation >= Activation::SwiGlu ? 2 * kColumns : kColumns;
    const int64_t columns = activation == Activation::SwiGluBackward ? 2 * kColumns : kColumns;
    return {.a = random(type, {kBatch, kRows, kDepth}),
            .b = random(type, {kBatch, kDepth, kColumns}),
            .c = random(type, {kBatch, kRows, columns}),
            .epilogue = {.activation = activation,
                         .inner = random(type, {kBatch, kRows, inner}),
                         .bias = random(type, {kBatch, kColumns}),
                         .residual = random(type, {kBatch, kRows, columns})}};
  }

  const std::unique_ptr<TestedKernels> tested_ = GetParam().make();
  Kernels& kernels_ = tested_->kernels();
  uint64_t next_ = 0;
};

class GemmBatchBits : public GemmBatches {};

TEST_P(GemmBatchBits, AreThoseOfProductsOneByOne) {
  for (const DType type : {DType::Float64, DType::Float32, DType::BFloat16, DType::Float16})
    for (const Activation activation : {Activation::Gelu, Activation::GeluBackward,
                                        Activation::SwiGlu, Activation::SwiGluBackward})
      for (int shared = 0; shared < 8; ++shared) {
        SCOPED_TRACE(testing::Message() << toString(type) << ", activation "
                                        << static_cast<int>(activation) << ", shared " << shared);
        GemmArgs args = batch(type, activation);
        args.beta = shared % 3 == 0 ? 1 : 0;
        if (shared % 2 != 0) args.a = random(type, {kRows, kDepth});
        if (shared / 2 % 2 != 0) args.b = random(type, {kDepth, kColumns});
        if (shared / 4 != 0) {
          args.epilogue.bias = random(type, {kColumns});
          args.epilogue.residual.strides[0] = 0;
        }
        GemmArgs single = args;
        single.c = copied(args.c);
        single.epilogue.inner = copied(args.epilogue.inner);
        kernels_.gemm(args);
        for (int64_t i = 0; i < kBatch; ++i) kernels_.gemm(productOf(single, i));
        expectSameBits(args.c, single.c, "c");
        expectSameBits(args.epilogue.inner, single.epilogue.inner, "inner");
      }
}

TEST_P(GemmBatchBits, OfNoProductWriteNothing) {
  const Tensor c = random(DType::Float32, {kBatch, kRows, kColumns}), before = copied(c);
  GemmArgs args{.a = random(DType::Float32, {kRows, kDepth}),
                .b = random(DType::Float32, {kDepth, kColumns}),
                .c = c};
  args.c.shape[0] = 0;
  kernels_.gemm(args);
  expectSameBits(c, before, "c");
}

TEST_P(GemmBatches, RefuseOperandsOfOtherBatches) {
  const GemmArgs right = batch(DType::Float32, Activation::GeluBackward);
  EXPECT_NO_THROW(kernels_.gemm(right));
  const auto expectRefused = [&](Tensor& operand, const GemmArgs& args) {
    const Tensor whole = operand;
    operand.shape[0] = kBatch - 1;
    EXPECT_THROW(kernels_.gemm(args), Error) << whole;
    operand = whole;
  };
  GemmArgs args = right;
  for (Tensor* const operand : {&args.a, &args.b, &args.c, &args.epilogue.inner,
                                &args.epilogue.bias, &args.epilogue.residual})
    expectRefused(*operand, args);
  args.c = productOf(right, 0).c;
  EXPECT_THROW(kernels_.gemm(args), Error) << "a batch into one matrix";
}

const auto nameOfDevice = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Devices, GemmBatches, testing::ValuesIn(testedDevices()), nameOfDevice);
INSTANTIATE_TEST_SUITE_P(Devices, GemmBatchBits, testing::ValuesIn(computingDevices()),
                         nameOfDevice);

}  // namespace
}  // namespace tutti::parallel
