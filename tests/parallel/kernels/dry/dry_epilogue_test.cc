// What a dry run counts of a product with an epilogue: one call, each operand's bytes once.

#include <gtest/gtest.h>

#include "parallel/kernels/dry/dry_kernels.h"

namespace tutti::parallel {
namespace {

constexpr int64_t kRows = 3, kColumns = 5, kDepth = 7;

KernelCount countOf(const GemmArgs& args) {
  DryKernels kernels;
  kernels.gemm(args);
  return kernels.counts().at("gemm");
}

TEST(DryEpilogue, CountsEachOperandOnce) {
  Arena arena("test", {.dry = true});
  const auto make = [&](int64_t rows, int64_t columns) {
    return arena.allocate(DType::BFloat16, {rows, columns});
  };
  const Tensor a = make(kRows, kDepth), b = make(kDepth, kColumns), c = make(kRows, kColumns),
               inner = make(kRows, kColumns), gated = make(kRows, 2 * kColumns),
               wide = make(kRows, 2 * kColumns), bias = arena.allocate(DType::Float32, {kColumns});
  constexpr size_t kOperands = 2 * (kRows * kDepth + kDepth * kColumns), kC = 2 * kRows * kColumns;
  constexpr double kFlops = 2.0 * kRows * kColumns * kDepth;
  const auto expect = [&](const Tensor& result, double beta, const GemmEpilogue& epilogue,
                          size_t read, size_t written) {
    const KernelCount count =
        countOf({.a = a, .b = b, .c = result, .beta = beta, .epilogue = epilogue});
    EXPECT_EQ(count, (KernelCount{1, kOperands + read, written, kFlops}))
        << static_cast<int>(epilogue.activation);
  };
  expect(c, 0, {}, 0, kC);
  expect(c, 1, {.bias = bias, .residual = inner}, 4 * kColumns + 2 * kC, kC);
  expect(c, 0, {.activation = Activation::Gelu}, 0, kC);
  expect(c, 0, {.activation = Activation::Gelu, .inner = inner}, 0, 2 * kC);
  expect(c, 0, {.activation = Activation::GeluBackward, .inner = inner}, kC, kC);
  expect(c, 0, {.activation = Activation::SwiGlu, .inner = gated}, kC, 2 * kC);
  expect(wide, 0, {.activation = Activation::SwiGluBackward, .inner = gated}, 2 * kC, 2 * kC);
}

// What all products share is read once.
TEST(DryEpilogue, CountsBatches) {
  Arena arena("test", {.dry = true});
  const auto make = [&](const Shape& shape) { return arena.allocate(DType::Float32, shape); };
  const KernelCount count = countOf({.a = make({4, kRows, kDepth}),
                                     .b = make({kDepth, kColumns}),
                                     .c = make({4, kRows, kColumns})});
  EXPECT_EQ(count, (KernelCount{1, 4 * (4 * kRows * kDepth + kDepth * kColumns),
                                4 * 4 * kRows * kColumns, 4 * 2.0 * kRows * kColumns * kDepth}));
}

}  // namespace
}  // namespace tutti::parallel
