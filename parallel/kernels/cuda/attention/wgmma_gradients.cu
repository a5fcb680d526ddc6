// arguments.h, wgmma_gradients.cu: by nvcc for GPUs of compute capability 9.0, by g++ for the
// emulation.

#include "parallel/kernels/cuda/attention/load.h"
#include "parallel/kernels/cuda/attention/wgmma_gradient_device.cuh"

namespace tutti::parallel::cuda {

namespace {

template <class Numbers, int kWidth, bool kOwnsKeys>
constexpr HeadKernel<WgmmaAttentionBackward> wgmmaGradientOf(ElementFormat format) {
  return {.kernel = wgmmaAttentionGradient<Numbers, kWidth, kOwnsKeys>,
          .format = format,
          .width = kWidth,
          .threads = kWideThreads,
          .tileRows = kWideRows,
          .sharedBytes = int32_t{sizeof(WgmmaGradientShared<kWidth>)}};
}

template <bool kOwnsKeys>
constexpr HeadKernel<WgmmaAttentionBackward> kWgmmaGradients[] = {
    wgmmaGradientOf<BrainNumbers, 64, kOwnsKeys>(ElementFormat::BFloat16),
    wgmmaGradientOf<BrainNumbers, 80, kOwnsKeys>(ElementFormat::BFloat16),
    wgmmaGradientOf<BrainNumbers, 96, kOwnsKeys>(ElementFormat::BFloat16),
    wgmmaGradientOf<BrainNumbers, 128, kOwnsKeys>(ElementFormat::BFloat16),
    wgmmaGradientOf<HalfNumbers, 64, kOwnsKeys>(ElementFormat::Float16),
    wgmmaGradientOf<HalfNumbers, 80, kOwnsKeys>(ElementFormat::Float16),
    wgmmaGradientOf<HalfNumbers, 96, kOwnsKeys>(ElementFormat::Float16),
    wgmmaGradientOf<HalfNumbers, 128, kOwnsKeys>(ElementFormat::Float16),
};

}  // namespace

cudaError_t enqueue(const WgmmaAttentionBackward& x, cudaStream_t stream) {
  const AttentionSizes& sizes = x.sizes;
  const cudaError_t error = launchTiles<WgmmaAttentionBackward>(
      kWgmmaGradients<false>, x, sizes.heads, sizes.queries, stream, x.mostBlocks);
  if (error != cudaSuccess) return error;
  return launchTiles<WgmmaAttentionBackward>(kWgmmaGradients<true>, x, sizes.kvHeads, sizes.keys,
                                             stream, x.mostBlocks);
}

cudaError_t loadWgmmaGradients() {
  bool isHopper = false;
  cudaError_t error = isHopperHere(&isHopper);
  if (!isHopper) return error;
  error = loadTiles(kWgmmaGradients<false>);
  return error == cudaSuccess ? loadTiles(kWgmmaGradients<true>) : error;
}

}  // namespace tutti::parallel::cuda
