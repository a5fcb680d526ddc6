// launches.h, sum.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/sum_device.cuh"

namespace tutti::parallel::cuda {

namespace {
constexpr TypedKernel<AddSquares> kAddSquares{addSquares<float>, addSquares<double>};
}  // namespace

cudaError_t enqueue(const AddSquares& x, bool doubles, cudaStream_t stream) {
  return launch(kAddSquares, doubles, x.table.blocks, kThreads, x, stream);
}

cudaError_t loadSum() { return loadAll(kAddSquares); }

}  // namespace tutti::parallel::cuda
