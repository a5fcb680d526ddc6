// The calls that normalize rows. Without a mean the kernels compute rmsNorm.

#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/queue.h"
#include "parallel/kernels/cuda/vectorized/vectorized.h"
#include "parallel/kernels/norm_slices.h"

namespace tutti::parallel {

using namespace cuda;

int64_t CudaKernels::normSlices(const NormSlicesArgs& args) const {
  return memoryBound_ == MemoryBoundFamily::Reference ? 0 : normSlicesOf(args);
}

void CudaKernels::startBackward(const char* operation, const NormBackward& norm, const Tensor& sums,
                                bool doubles) {
  if (sums.data == nullptr)
    queue_->start(operation, ChosenMemoryBound{memoryBound_, norm}, doubles);
  else
    queue_->start(operation, SlicedNormBackward{norm, sums.as<float>(), normSlicesOf(norm.rows)});
}

void CudaKernels::startWeights(const char* operation, const ColumnSums& all, const Tensor& sums,
                               bool doubles) {
  if (sums.data == nullptr) return startSums(operation, all, doubles);
  SumsOfNorms norms{{all, normSlicesOf(all.rows)}};
  norms.of.partial = sums.as<float>();
  queue_->start(operation, norms);
}

void CudaKernels::layerNorm(const LayerNormArgs& args) {
  LayerNormArgs a = args;
  widen(a.x, a.weight, a.bias, a.y, a.mean, a.rstd, a.residual);
  requireOperands(a);
  queue_->start("layerNorm",
                ChosenMemoryBound{memoryBound_, NormForward{.x = elementsOf(args.x),
                                                            .weight = elementsOf(args.weight),
                                                            .bias = elementsOf(args.bias),
                                                            .y = elementsOf(args.y),
                                                            .mean = elementsOf(args.mean),
                                                            .rstd = elementsOf(args.rstd),
                                                            .residual = elementsOf(args.residual),
                                                            .rows = sizeOf32(rows(a.x)),
                                                            .width = sizeOf32(width(a.x)),
                                                            .epsilon = a.epsilon}},
                isDouble(a.x));
}

void CudaKernels::layerNormBackward(const LayerNormBackwardArgs& args) {
  LayerNormBackwardArgs a = args;
  widen(a.dy, a.x, a.weight, a.mean, a.rstd, a.residual, a.dx);
  requireOperands(a);
  requireSlices("layerNormBackward", args.sums,
                normSlices({args.dy, args.x, args.weight, args.residual, args.dx}));
  startBackward("layerNormBackward",
                {.dy = elementsOf(args.dy),
                 .x = elementsOf(args.x),
                 .weight = elementsOf(args.weight),
                 .mean = elementsOf(args.mean),
                 .rstd = elementsOf(args.rstd),
                 .residual = elementsOf(args.residual),
                 .dx = elementsOf(args.dx),
                 .rows = sizeOf32(rows(a.x)),
                 .width = sizeOf32(width(a.x))},
                args.sums, isDouble(a.x));
}

void CudaKernels::layerNormWeights(const LayerNormWeightArgs& args) {
  LayerNormWeightArgs a = args;
  widen(a.dy, a.x, a.mean, a.rstd, a.dWeight, a.dBias);
  requireOperands(a);
  requireSlices("layerNormWeights", args.sums, normSlices({args.dy, args.x, {}, {}, {}}));
  startWeights("layerNormWeights",
               {.dy = matrixOf(args.dy.matrix()),
                .x = elementsOf(args.x),
                .mean = elementsOf(args.mean),
                .rstd = elementsOf(args.rstd),
                .sums = elementsOf(args.dWeight),
                .sumsOfDy = elementsOf(args.dBias),
                .partial = nullptr,
                .arrivals = {},
                .rows = sizeOf32(rows(a.x)),
                .width = sizeOf32(width(a.x)),
                .accumulate = a.betaWeight != 0,
                .accumulateOfDy = a.betaBias != 0},
               args.sums, isDouble(a.x));
}

void CudaKernels::rmsNorm(const RmsNormArgs& args) {
  RmsNormArgs a = args;
  widen(a.x, a.weight, a.y, a.rstd, a.residual);
  requireOperands(a);
  queue_->start("rmsNorm",
                ChosenMemoryBound{memoryBound_, NormForward{.x = elementsOf(args.x),
                                                            .weight = elementsOf(args.weight),
                                                            .bias = {},
                                                            .y = elementsOf(args.y),
                                                            .mean = {},
                                                            .rstd = elementsOf(args.rstd),
                                                            .residual = elementsOf(args.residual),
                                                            .rows = sizeOf32(rows(a.x)),
                                                            .width = sizeOf32(width(a.x)),
                                                            .epsilon = a.epsilon}},
                isDouble(a.x));
}

void CudaKernels::rmsNormBackward(const RmsNormBackwardArgs& args) {
  RmsNormBackwardArgs a = args;
  widen(a.dy, a.x, a.weight, a.rstd, a.residual, a.dx);
  requireOperands(a);
  requireSlices("rmsNormBackward", args.sums,
                normSlices({args.dy, args.x, args.weight, args.residual, args.dx}));
  startBackward("rmsNormBackward",
                {.dy = elementsOf(args.dy),
                 .x = elementsOf(args.x),
                 .weight = elementsOf(args.weight),
                 .mean = {},
                 .rstd = elementsOf(args.rstd),
                 .residual = elementsOf(args.residual),
                 .dx = elementsOf(args.dx),
                 .rows = sizeOf32(rows(a.x)),
                 .width = sizeOf32(width(a.x))},
                args.sums, isDouble(a.x));
}

void CudaKernels::rmsNormWeights(const RmsNormWeightArgs& args) {
  RmsNormWeightArgs a = args;
  widen(a.dy, a.x, a.rstd, a.dWeight);
  requireOperands(a);
  requireSlices("rmsNormWeights", args.sums, normSlices({args.dy, args.x, {}, {}, {}}));
  startWeights("rmsNormWeights",
               {.dy = matrixOf(args.dy.matrix()),
                .x = elementsOf(args.x),
                .mean = {},
                .rstd = elementsOf(args.rstd),
                .sums = elementsOf(args.dWeight),
                .sumsOfDy = {},
                .partial = nullptr,
                .arrivals = {},
                .rows = sizeOf32(rows(a.x)),
                .width = sizeOf32(width(a.x)),
                .accumulate = a.beta != 0,
                .accumulateOfDy = 0},
               args.sums, isDouble(a.x));
}

}  // namespace tutti::parallel
