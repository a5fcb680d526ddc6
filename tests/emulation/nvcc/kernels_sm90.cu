// All kernels of kernels/, without bugs, and core_device.cuh.

#include "tests/emulation/core_device.cuh"
#include "tests/emulation/kernels/wgmma_gemm_device.cuh"
#include "tests/emulation/nvcc/kernels_sm80.cu"

namespace tutti::emulation::kernels {

cudaError_t launchWgmma(const CUtensorMap& map, const WgmmaShape& shape) {
  return cuda::launch(wgmmaGemm<WgmmaBug::None>,
                      {.grid = dim3(132),
                       .block = dim3(kWgThreads),
                       .cluster = dim3(2),
                       .dynamicSharedBytes = sizeof(WgmmaShared)},
                      map, map, map, shape);
}

}  // namespace tutti::emulation::kernels
