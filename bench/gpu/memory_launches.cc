#include "bench/gpu/memory_launches.h"

#include "parallel/kernels/cuda/gemm/gemms.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/streaming/streaming.h"
#include "parallel/tensor/check.h"

namespace tutti::bench {

using namespace parallel::cuda;

namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) parallel::fail(ErrorCode::Cuda, cudaGetErrorString(error));
}

}  // namespace

void launchAttentionDots(const AttentionDotsOperands& x, CUstream_st* stream) {
  const int32_t heads = sizeOf32(x.dots.shape[1]), context = sizeOf32(x.dots.shape[2]);
  const AttentionDots dots{.sizes = {.batch = sizeOf32(x.dots.shape[0]),
                                     .heads = heads,
                                     .kvHeads = heads,
                                     .headWidth = sizeOf32(x.dOut.shape[2]) / heads,
                                     .queries = context,
                                     .keys = context,
                                     .firstQuery = 0,
                                     .firstKey = 0,
                                     .scale = 1,
                                     .reach = {}},
                           .dOut = headRowsOf(x.dOut),
                           .out = headRowsOf(x.out),
                           .dots = headScalarsOf(x.dots)};
  check(enqueue(ChosenStreaming{streamingOfEnvironment(), dots}, false, stream));
}

void launchSumOfSplits(const SplitsOperands& x, CUstream_st* stream) {
  const int64_t splits = x.partial.shape[1], rows = x.c.shape[1], columns = x.c.shape[2];
  const GemmProduct product{.a = {},
                            .b = {},
                            .c = {elementsOf(x.c), columns},
                            .rows = sizeOf32(rows),
                            .columns = sizeOf32(columns),
                            .depth = 1,
                            .isKMajorA = true,
                            .isKMajorB = true,
                            .accumulate = true,
                            .batch = sizeOf32(x.c.shape[0]),
                            .strides = {.c = rows * columns}};
  check(enqueue(SumSplits{.partial = x.partial.as<float>(),
                          .stride = columns,
                          .splitStride = rows * columns,
                          .batchStride = splits * rows * columns,
                          .splits = sizeOf32(splits),
                          .out = outputOf(product)},
                stream));
}

}  // namespace tutti::bench
