// launches.h, gemm.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/gemm_device.cuh"
#include "parallel/kernels/cuda/launch.h"

namespace tutti::parallel::cuda {

namespace {
constexpr TypedKernel<Gemm> kGemm{gemm<float>, gemm<double>};
}  // namespace

cudaError_t enqueue(const Gemm& x, bool doubles, cudaStream_t stream) {
  const int64_t tiles =
      x.out.batch * blocksOf(x.out.rows, kGemmTile) * blocksOf(x.out.columns, kGemmTile);
  return launch(kGemm, doubles, tiles, kGemmThreads, x, stream);
}

cudaError_t loadGemm() { return loadAll(kGemm); }

}  // namespace tutti::parallel::cuda
