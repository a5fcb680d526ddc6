// arguments.h, one_pass.cu: by nvcc for GPUs of compute capability 9.0, by g++ for the emulation.

#include "parallel/kernels/cuda/attention/load.h"
#include "parallel/kernels/cuda/attention/one_pass_device.cuh"

namespace tutti::parallel::cuda {

namespace {

template <class Numbers, int kWidth>
constexpr HeadKernel<OnePassAttentionBackward> onePassOf(ElementFormat format) {
  return {.kernel = onePassAttentionGradient<Numbers, kWidth>,
          .format = format,
          .width = kWidth,
          .threads = kWideThreads,
          .tileRows = kWideRows,
          .sharedBytes = int32_t{sizeof(OnePassShared<kWidth>)}};
}
constexpr HeadKernel<OnePassAttentionBackward> kOnePass[] = {
    onePassOf<BrainNumbers, 64>(ElementFormat::BFloat16),
    onePassOf<BrainNumbers, 80>(ElementFormat::BFloat16),
    onePassOf<BrainNumbers, 96>(ElementFormat::BFloat16),
    onePassOf<BrainNumbers, 128>(ElementFormat::BFloat16),
    onePassOf<HalfNumbers, 64>(ElementFormat::Float16),
    onePassOf<HalfNumbers, 80>(ElementFormat::Float16),
    onePassOf<HalfNumbers, 96>(ElementFormat::Float16),
    onePassOf<HalfNumbers, 128>(ElementFormat::Float16),
};

template <int kWidth>
constexpr HeadKernel<OnePassAttentionBackward> finishOf(ElementFormat format) {
  return {.kernel = finishQueryGradients<kWidth>,
          .format = format,
          .width = kWidth,
          .threads = 2 * kTurnRows,
          .tileRows = kTurnRows,
          .sharedBytes = 0};
}
constexpr HeadKernel<OnePassAttentionBackward> kFinish[] = {
    finishOf<64>(ElementFormat::BFloat16), finishOf<80>(ElementFormat::BFloat16),
    finishOf<96>(ElementFormat::BFloat16), finishOf<128>(ElementFormat::BFloat16),
    finishOf<64>(ElementFormat::Float16),  finishOf<80>(ElementFormat::Float16),
    finishOf<96>(ElementFormat::Float16),  finishOf<128>(ElementFormat::Float16),
};

}  // namespace

cudaError_t enqueue(const OnePassAttentionBackward& x, cudaStream_t stream) {
  const AttentionSizes& sizes = x.sizes;
  const auto counts = static_cast<size_t>(turnTiles(sizes) + 1);
  cudaError_t error = cudaMemsetAsync(x.turns, 0, counts * sizeof(uint32_t), stream);
  if (error == cudaSuccess)
    error = launchTiles(kOnePass, x, sizes.kvHeads, sizes.keys, stream, x.mostBlocks);
  return error == cudaSuccess ? launchTiles(kFinish, x, sizes.heads, sizes.queries, stream) : error;
}

cudaError_t loadOnePass() {
  bool isHopper = false;
  cudaError_t error = isHopperHere(&isHopper);
  if (!isHopper) return error;
  error = loadTiles(kOnePass);
  return error == cudaSuccess ? loadTiles(kFinish) : error;
}

}  // namespace tutti::parallel::cuda
