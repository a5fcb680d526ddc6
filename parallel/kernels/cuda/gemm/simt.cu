// arguments.h, simt.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/gemm/simt_device.cuh"
#include "parallel/kernels/cuda/load.h"

namespace tutti::parallel::cuda {

namespace {
/// By whether a is K-major, and b.
constexpr void (*kSimtKernels[2][2])(SimtGemm){
    {simtGemm<Major::Mn, Major::Mn>, simtGemm<Major::Mn, Major::K>},
    {simtGemm<Major::K, Major::Mn>, simtGemm<Major::K, Major::K>}};
}  // namespace

cudaError_t enqueue(const SimtGemm& x, cudaStream_t stream) {
  return ::tutti::cuda::launch(kSimtKernels[x.a.isKMajor][x.b.isKMajor],
                               {.grid = dim3(static_cast<unsigned>(x.tiles.units)),
                                .block = dim3(kSimtThreads),
                                .stream = stream},
                               x);
}

cudaError_t loadSimt() {
  cudaError_t error = cudaSuccess;
  for (const auto& ofA : kSimtKernels)
    for (const auto kernel : ofA)
      if (error == cudaSuccess) error = loadOne(kernel);
  return error;
}

}  // namespace tutti::parallel::cuda
