// launches.h, tokens.cu: by nvcc for a GPU, by g++ for the emulation.

#include <algorithm>

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/tokens_device.cuh"

namespace tutti::parallel::cuda {

namespace {
constexpr TypedKernel<Embedding> kEmbedding{embedding<float>, embedding<double>};
constexpr TypedKernel<SumByRow> kSumByRow{sumByRow<float>, sumByRow<double>};
constexpr TypedKernel<LogitStatistics> kLogitStatistics{logitStatistics<float>,
                                                        logitStatistics<double>};
constexpr TypedKernel<CrossEntropy> kCrossEntropy{crossEntropy<float>, crossEntropy<double>};
}  // namespace

cudaError_t enqueue(const FindOutside& x, cudaStream_t stream) {
  const int64_t warps = std::min<int64_t>(blocksOf(x.count, 32), kCheckThreads / 32);
  return launch(findOutside, 1, static_cast<int>(32 * warps), x, stream);
}

cudaError_t enqueue(const Embedding& x, bool doubles, cudaStream_t stream) {
  return launch(kEmbedding, doubles, x.rows, kRowThreads, x, stream);
}

cudaError_t enqueueZeros(const SumByRow& x, cudaStream_t stream) {
  const int64_t bytes = x.part.here * x.width * bytesOf(x.to.format);
  if (x.clears == 0 || bytes == 0) return cudaSuccess;
  return cudaMemsetAsync(x.to.data, 0, static_cast<size_t>(bytes), stream);
}

cudaError_t enqueueRows(const SumByRow& x, cudaStream_t stream) {
  return launch(findRows, blocksOf(x.count, kThreads), kThreads, x, stream);
}

cudaError_t enqueueLinked(const SumByRow& x, bool doubles, cudaStream_t stream) {
  return launch(kSumByRow, doubles, x.count, kRowThreads, x, stream);
}

cudaError_t enqueue(const SumByRow& x, bool doubles, cudaStream_t stream) {
  cudaError_t error = enqueueZeros(x, stream);
  if (error == cudaSuccess) error = enqueueRows(x, stream);
  if (error == cudaSuccess)
    error = launch(linkRows, blocksOf(x.count, kThreads), kThreads, x, stream);
  return error == cudaSuccess ? enqueueLinked(x, doubles, stream) : error;
}

cudaError_t enqueue(const LogitStatistics& x, bool doubles, cudaStream_t stream) {
  return launch(kLogitStatistics, doubles, x.rows, kRowThreads, x, stream);
}

cudaError_t enqueue(const CrossEntropy& x, bool doubles, cudaStream_t stream) {
  return launch(kCrossEntropy, doubles, x.rows, kRowThreads, x, stream);
}

cudaError_t loadTokens() {
  return loadAll(findOutside, findRows, linkRows, kEmbedding, kSumByRow, kLogitStatistics,
                 kCrossEntropy);
}

}  // namespace tutti::parallel::cuda
