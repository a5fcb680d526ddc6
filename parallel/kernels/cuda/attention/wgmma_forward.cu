// arguments.h, wgmma_forward.cu: by nvcc for GPUs of compute capability 9.0, by g++ for the
// emulation.

#include "parallel/kernels/cuda/attention/load.h"
#include "parallel/kernels/cuda/attention/wgmma_forward_device.cuh"

namespace tutti::parallel::cuda {

namespace {

template <class Numbers, int kWidth>
constexpr HeadKernel<WgmmaAttention> wgmmaForwardOf(Format format) {
  return {.kernel = wgmmaAttentionForward<Numbers, kWidth>,
          .format = format,
          .width = kWidth,
          .threads = kWideThreads,
          .tileRows = kWideRows,
          .sharedBytes = int32_t{sizeof(WgmmaForwardShared<kWidth>)}};
}

constexpr auto kBrain = Format::BFloat16, kHalf = Format::Float16;
constexpr HeadKernel<WgmmaAttention> kWgmmaForward[] = {
    wgmmaForwardOf<BrainNumbers, 64>(kBrain), wgmmaForwardOf<BrainNumbers, 80>(kBrain),
    wgmmaForwardOf<BrainNumbers, 96>(kBrain), wgmmaForwardOf<BrainNumbers, 128>(kBrain),
    wgmmaForwardOf<HalfNumbers, 64>(kHalf),   wgmmaForwardOf<HalfNumbers, 80>(kHalf),
    wgmmaForwardOf<HalfNumbers, 96>(kHalf),   wgmmaForwardOf<HalfNumbers, 128>(kHalf),
};

}  // namespace

cudaError_t enqueue(const WgmmaAttention& x, cudaStream_t stream) {
  return launchTiles<WgmmaAttention>(kWgmmaForward, x, x.sizes.heads, x.sizes.queries, stream,
                                     x.mostBlocks);
}

cudaError_t loadWgmmaForward() {
  bool isHopper = false;
  const cudaError_t error = isHopperHere(&isHopper);
  return isHopper ? loadTiles(kWgmmaForward) : error;
}

}  // namespace tutti::parallel::cuda
