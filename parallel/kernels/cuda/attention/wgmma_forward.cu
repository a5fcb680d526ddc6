// arguments.h, wgmma_forward.cu: by nvcc for GPUs of compute capability 9.0, by g++ for the
// emulation.

#include "parallel/kernels/cuda/attention/load.h"
#include "parallel/kernels/cuda/attention/wgmma_forward_device.cuh"

namespace tutti::parallel::cuda {

namespace {

template <class Numbers, int kWidth, int kGroups>
constexpr HeadKernel<WgmmaAttention> wgmmaForwardOf(ElementFormat format) {
  return {.kernel = wgmmaAttentionForward<Numbers, kWidth, kGroups>,
          .format = format,
          .width = kWidth,
          .threads = kForwardThreads<kGroups>,
          .tileRows = kForwardRows<kGroups>,
          .sharedBytes = int32_t{sizeof(WgmmaForwardShared<kWidth, kGroups>)}};
}

constexpr auto kBrain = ElementFormat::BFloat16, kHalf = ElementFormat::Float16;
constexpr HeadKernel<WgmmaAttention> kWgmmaForward[] = {
    wgmmaForwardOf<BrainNumbers, 64, 2>(kBrain), wgmmaForwardOf<BrainNumbers, 80, 2>(kBrain),
    wgmmaForwardOf<BrainNumbers, 96, 2>(kBrain), wgmmaForwardOf<BrainNumbers, 128, 2>(kBrain),
    wgmmaForwardOf<HalfNumbers, 64, 2>(kHalf),   wgmmaForwardOf<HalfNumbers, 80, 2>(kHalf),
    wgmmaForwardOf<HalfNumbers, 96, 2>(kHalf),   wgmmaForwardOf<HalfNumbers, 128, 2>(kHalf),
};
constexpr HeadKernel<WgmmaAttention> kTallForward[] = {
    wgmmaForwardOf<BrainNumbers, kTallWidth, 3>(kBrain),
    wgmmaForwardOf<HalfNumbers, kTallWidth, 3>(kHalf),
};

}  // namespace

cudaError_t enqueue(const WgmmaAttention& x, cudaStream_t stream) {
  const auto launchOf = [&](const auto& kernels) {
    return launchTiles<WgmmaAttention>(kernels, x, x.sizes.heads, x.sizes.queries, stream,
                                       x.mostBlocks);
  };
  return x.isTall ? launchOf(kTallForward) : launchOf(kWgmmaForward);
}

cudaError_t loadWgmmaForward() {
  bool isHopper = false;
  const cudaError_t error = isHopperHere(&isHopper);
  if (!isHopper) return error;
  const cudaError_t ofTall = loadTiles(kTallForward);
  return ofTall == cudaSuccess ? loadTiles(kWgmmaForward) : ofTall;
}

}  // namespace tutti::parallel::cuda
