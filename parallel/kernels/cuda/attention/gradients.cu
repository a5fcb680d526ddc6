// arguments.h, gradients.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/attention/gradient_device.cuh"
#include "parallel/kernels/cuda/attention/load.h"

namespace tutti::parallel::cuda {

namespace {

template <class Numbers, int kWidth, bool kOwnsKeys>
constexpr HeadKernel<AttentionBackward> gradientOf(ElementFormat format) {
  return {attentionGradient<Numbers, kWidth, kOwnsKeys>, format, kWidth, kHeadThreads, kOwnRows,
          int32_t{sizeof(GradientShared<kWidth>)}};
}

constexpr auto kBrain = ElementFormat::BFloat16, kHalf = ElementFormat::Float16;
constexpr HeadKernel<AttentionBackward> kOfKeys[] = {
    gradientOf<BrainNumbers, 64, true>(kBrain), gradientOf<BrainNumbers, 80, true>(kBrain),
    gradientOf<BrainNumbers, 96, true>(kBrain), gradientOf<BrainNumbers, 128, true>(kBrain),
    gradientOf<HalfNumbers, 64, true>(kHalf),   gradientOf<HalfNumbers, 80, true>(kHalf),
    gradientOf<HalfNumbers, 96, true>(kHalf),   gradientOf<HalfNumbers, 128, true>(kHalf),
};
constexpr HeadKernel<AttentionBackward> kOfQueries[] = {
    gradientOf<BrainNumbers, 64, false>(kBrain), gradientOf<BrainNumbers, 80, false>(kBrain),
    gradientOf<BrainNumbers, 96, false>(kBrain), gradientOf<BrainNumbers, 128, false>(kBrain),
    gradientOf<HalfNumbers, 64, false>(kHalf),   gradientOf<HalfNumbers, 80, false>(kHalf),
    gradientOf<HalfNumbers, 96, false>(kHalf),   gradientOf<HalfNumbers, 128, false>(kHalf),
};

}  // namespace

cudaError_t enqueue(const TiledAttentionBackward& x, cudaStream_t stream) {
  const AttentionSizes& sizes = x.sizes;
  const cudaError_t error =
      launchTiles<AttentionBackward>(kOfQueries, x, sizes.heads, sizes.queries, stream);
  if (error != cudaSuccess) return error;
  return launchTiles<AttentionBackward>(kOfKeys, x, sizes.kvHeads, sizes.keys, stream);
}

cudaError_t loadAttentionGradients() {
  const cudaError_t error = loadTiles(kOfQueries);
  return error == cudaSuccess ? loadTiles(kOfKeys) : error;
}

}  // namespace tutti::parallel::cuda
