// arguments.h, splits.cu: by nvcc for a GPU, by g++ for the emulation.

#include <algorithm>

#include "parallel/kernels/cuda/gemm/splits_device.cuh"
#include "parallel/kernels/cuda/load.h"

namespace tutti::parallel::cuda {

cudaError_t enqueue(const SumSplits& x, cudaStream_t stream) {
  constexpr int32_t kColumns = 4 * kSumAcross;  // of a block
  // Blocks below each other, and products; a block goes on by as many.
  constexpr int32_t kMost = 1024;
  const auto across = static_cast<unsigned>((x.out.columns + kColumns - 1) / kColumns);
  const auto down = static_cast<unsigned>(std::min((x.out.rows + kSumRows - 1) / kSumRows, kMost));
  return ::tutti::cuda::launch(
      sumSplits,
      {.grid = dim3(across, down, static_cast<unsigned>(std::min(x.out.batch, kMost))),
       .block = dim3(kSumAcross, kSumRows),
       .stream = stream},
      x);
}

cudaError_t loadSplits() { return loadOne(sumSplits); }

}  // namespace tutti::parallel::cuda
