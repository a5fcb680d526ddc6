// arguments.h, splits.cu: by nvcc for a GPU, by g++ for the emulation.

#include <algorithm>

#include "parallel/kernels/cuda/gemm/splits_device.cuh"
#include "parallel/kernels/cuda/load.h"

namespace tutti::parallel::cuda {

cudaError_t enqueue(const SumSplits& x, cudaStream_t stream) {
  const int64_t fours = int64_t{x.out.batch} * x.out.rows * ((x.out.columns + 3) / 4);
  const int64_t blocks = std::min<int64_t>((fours + kSumThreads - 1) / kSumThreads, 4096);
  return ::tutti::cuda::launch(
      sumSplits,
      {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kSumThreads), .stream = stream},
      x);
}

cudaError_t loadSplits() { return loadOne(sumSplits); }

}  // namespace tutti::parallel::cuda
