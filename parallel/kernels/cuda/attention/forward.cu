// arguments.h, forward.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/attention/forward_device.cuh"
#include "parallel/kernels/cuda/attention/load.h"

namespace tutti::parallel::cuda {

namespace {

template <class Numbers, int kWidth>
constexpr HeadKernel<AttentionForward> forwardOf(ElementFormat format) {
  return {attentionForward<Numbers, kWidth>,
          format,
          kWidth,
          kHeadThreads,
          ForwardTiles<kWidth>::kQueries,
          ForwardTiles<kWidth>::kSharedBytes};
}

constexpr auto kBrain = ElementFormat::BFloat16, kHalf = ElementFormat::Float16;
constexpr HeadKernel<AttentionForward> kForward[] = {
    forwardOf<BrainNumbers, 64>(kBrain), forwardOf<BrainNumbers, 80>(kBrain),
    forwardOf<BrainNumbers, 96>(kBrain), forwardOf<BrainNumbers, 128>(kBrain),
    forwardOf<HalfNumbers, 64>(kHalf),   forwardOf<HalfNumbers, 80>(kHalf),
    forwardOf<HalfNumbers, 96>(kHalf),   forwardOf<HalfNumbers, 128>(kHalf),
};

}  // namespace

cudaError_t enqueue(const TiledAttention& x, cudaStream_t stream) {
  return launchTiles<AttentionForward>(kForward, x, x.sizes.heads, x.sizes.queries, stream);
}

cudaError_t loadAttentionForward() { return loadTiles(kForward); }

}  // namespace tutti::parallel::cuda
