#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/cuda/gemm/gemms.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/queue.h"

namespace tutti::parallel {

using namespace cuda;

namespace {

/// What is left out has no data, and no shape that could be looked at.
DeviceMatrix matrixIfThere(const Tensor& x) {
  return x.data == nullptr ? DeviceMatrix{} : matrixOf(x);
}

Epilogue epilogueOf(const GemmEpilogue& e) {
  return {.activation = e.activation,
          .inner = matrixIfThere(e.inner),
          .residual = matrixIfThere(e.residual),
          .bias = elementsOf(e.bias),
          .scale = e.scale};
}

/// Elements from one product's operand to the next one's; 0 where all share it, or there is no
/// next one.
int64_t batchStrideOf(const Tensor& x, int rank) {
  const bool hasNext = x.data != nullptr && x.shape.rank() == rank + 1 && x.shape[0] > 1;
  return hasNext ? x.strides[0] : 0;
}

}  // namespace

void CudaKernels::gemm(const GemmArgs& all) {
  GemmArgs a = all;
  GemmEpilogue& e = a.epilogue;
  widen(a.a, a.b, a.c, e.inner, e.bias, e.residual);
  requireOperands(a);
  a = productOf(a, 0);
  const GemmArgs args = productOf(all, 0);
  const GemmProduct product{.a = matrixOf(args.a),
                            .b = matrixOf(args.b),
                            .c = matrixOf(args.c),
                            .rows = sizeOf32(a.c.shape[0]),
                            .columns = sizeOf32(productColumns(a)),
                            .depth = sizeOf32(summed(a)),
                            .isKMajorA = !a.transposeA,
                            .isKMajorB = a.transposeB,
                            .accumulate = a.beta != 0,
                            .epilogue = epilogueOf(args.epilogue),
                            .batch = sizeOf32(batchOf(all)),
                            .batchStrideA = batchStrideOf(all.a, 2),
                            .batchStrideB = batchStrideOf(all.b, 2),
                            .strides = {.c = batchStrideOf(all.c, 2),
                                        .inner = batchStrideOf(all.epilogue.inner, 2),
                                        .residual = batchStrideOf(all.epilogue.residual, 2),
                                        .bias = batchStrideOf(all.epilogue.bias, 1)}};
  // Each of the smallest tiles is a block of one launch.
  sizeOf32(int64_t{product.batch} * (product.rows / 64 + 1) * (product.columns / 64 + 1));
  const bool doubles = isDouble(a.c);
  const GemmChoice choice = gemms_->choose(product);
  if (choice.family == GemmFamily::Reference)
    return queue_->start("gemm",
                         Gemm{.a = product.a,
                              .b = product.b,
                              .batchStrideA = product.batchStrideA,
                              .batchStrideB = product.batchStrideB,
                              .depth = product.depth,
                              .transposeA = a.transposeA,
                              .transposeB = a.transposeB,
                              .out = outputOf(product)},
                         doubles);
  const int64_t partialSums = Gemms::partialSumsOf(product, choice);
  queue_->start("gemm", ChosenGemm{.gemms = gemms_.get(),
                                   .product = product,
                                   .choice = choice,
                                   .scratch = {.partial = partialSums == 0
                                                              ? nullptr
                                                              : queue_->scratch<float>(partialSums),
                                               .arrivals = queue_->zeros()}});
}

}  // namespace tutti::parallel
