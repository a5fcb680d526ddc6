#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/cuda/gemm/gemms.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/queue.h"

namespace tutti::parallel {

using namespace cuda;

namespace {

/// What is left out has no data, and no shape that could be looked at.
Matrix matrixIfThere(const Tensor& x) { return x.data == nullptr ? Matrix{} : matrixOf(x); }

Epilogue epilogueOf(const GemmEpilogue& e) {
  return {.activation = e.activation,
          .inner = matrixIfThere(e.inner),
          .residual = matrixIfThere(e.residual),
          .bias = elementsOf(e.bias),
          .scale = e.scale};
}

}  // namespace

void CudaKernels::gemm(const GemmArgs& args) {
  GemmArgs a = args;
  GemmEpilogue& e = a.epilogue;
  widen(a.a, a.b, a.c, e.inner, e.bias, e.residual);
  requireOperands(a);
  const GemmProduct product{.a = matrixOf(args.a),
                            .b = matrixOf(args.b),
                            .c = matrixOf(args.c),
                            .rows = sizeOf32(a.c.shape[0]),
                            .columns = sizeOf32(productColumns(a)),
                            .depth = sizeOf32(summed(a)),
                            .isKMajorA = !a.transposeA,
                            .isKMajorB = a.transposeB,
                            .accumulate = a.beta != 0,
                            .epilogue = epilogueOf(args.epilogue)};
  const bool doubles = isDouble(a.c);
  const GemmChoice choice = gemms_->choose(product);
  if (choice.family == GemmFamily::Plain)
    return queue_->start("gemm",
                         Gemm{.a = product.a,
                              .b = product.b,
                              .depth = product.depth,
                              .transposeA = a.transposeA,
                              .transposeB = a.transposeB,
                              .out = outputOf(product)},
                         doubles);
  const int64_t partialSums = Gemms::partialSumsOf(product, choice);
  queue_->start(
      "gemm",
      ChosenGemm{.gemms = *gemms_,
                 .product = product,
                 .choice = choice,
                 .partial = partialSums == 0 ? nullptr : queue_->scratch<float>(partialSums)});
}

}  // namespace tutti::parallel
