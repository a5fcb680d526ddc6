#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/cuda/gemm/gemms.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/queue.h"

namespace tutti::parallel {

using namespace cuda;

void CudaKernels::gemm(const GemmArgs& args) {
  GemmArgs a = args;
  widen(a.a, a.b, a.c);
  requireOperands(a);
  const GemmProduct product{.a = matrixOf(args.a),
                            .b = matrixOf(args.b),
                            .c = matrixOf(args.c),
                            .rows = sizeOf32(a.c.shape[0]),
                            .columns = sizeOf32(a.c.shape[1]),
                            .depth = sizeOf32(summed(a)),
                            .isKMajorA = !a.transposeA,
                            .isKMajorB = a.transposeB,
                            .accumulate = a.beta != 0};
  const bool doubles = isDouble(a.c);
  const GemmChoice choice = gemms_->choose(product);
  if (choice.family == GemmFamily::Plain)
    return queue_->start("gemm",
                         Gemm{.a = product.a,
                              .b = product.b,
                              .c = product.c,
                              .rows = product.rows,
                              .columns = product.columns,
                              .depth = product.depth,
                              .transposeA = a.transposeA,
                              .transposeB = a.transposeB,
                              .accumulate = product.accumulate},
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
