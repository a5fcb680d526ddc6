// launches.h, norm.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/norm_device.cuh"

namespace tutti::parallel::cuda {

namespace {
constexpr TypedKernel<NormForward> kNorm{norm<float>, norm<double>};
constexpr TypedKernel<NormBackward> kNormBackward{normBackward<float>, normBackward<double>};
constexpr TypedKernel<ColumnSums> kColumnSums{columnSums<float>, columnSums<double>};
}  // namespace

cudaError_t enqueue(const NormForward& x, bool doubles, cudaStream_t stream) {
  return launch(kNorm, doubles, x.rows, kRowThreads, x, stream);
}

cudaError_t enqueue(const NormBackward& x, bool doubles, cudaStream_t stream) {
  return launch(kNormBackward, doubles, x.rows, kRowThreads, x, stream);
}

cudaError_t enqueue(const ColumnSums& x, bool doubles, cudaStream_t stream) {
  const int64_t blocks = blocksOf(x.width, kRowThreads);
  const cudaError_t error = launch(kColumnSums, doubles, blocks, kRowThreads, x, stream);
  if (error != cudaSuccess || x.sumsOfDy.data == nullptr) return error;
  ColumnSums ofDy = x;
  ofDy.x = {}, ofDy.sums = x.sumsOfDy, ofDy.accumulate = x.accumulateOfDy;
  return launch(kColumnSums, doubles, blocks, kRowThreads, ofDy, stream);
}

cudaError_t loadNorm() { return loadAll(kNorm, kNormBackward, kColumnSums); }

}  // namespace tutti::parallel::cuda
