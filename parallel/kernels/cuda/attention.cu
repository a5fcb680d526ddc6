// launches.h, attention.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/attention_device.cuh"
#include "parallel/kernels/cuda/launch.h"

namespace tutti::parallel::cuda {
namespace {

constexpr TypedKernel<AttentionForward> kAttention{attention<float>, attention<double>};
constexpr TypedKernel<AttentionDots> kDots{attentionDots<float>, attentionDots<double>};
constexpr TypedKernel<AttentionBackward> kQueryGradient{attentionQueryGradient<float>,
                                                        attentionQueryGradient<double>};
constexpr TypedKernel<AttentionBackward> kKeyGradient{attentionKeyGradient<float>,
                                                      attentionKeyGradient<double>};
constexpr TypedKernel<AttentionMerge> kMerge{attentionMerge<float>, attentionMerge<double>};

/// A warp for each of `heads` and `rows`, and for each slice of a head.
int64_t blocksOfWarps(const AttentionSizes& sizes, int64_t heads, int64_t rows, int64_t slices) {
  return blocksOf(sizes.batch * heads * rows * slices, kRowWarps);
}
int64_t slicesOfHead(const AttentionSizes& sizes) { return blocksOf(sizes.headWidth, kSliceWidth); }

}  // namespace

cudaError_t enqueue(const AttentionForward& x, bool doubles, cudaStream_t stream) {
  const auto& sizes = x.sizes;
  return launch(kAttention, doubles,
                blocksOfWarps(sizes, sizes.heads, sizes.queries, slicesOfHead(sizes)), kRowThreads,
                x, stream);
}

cudaError_t enqueue(const AttentionBackward& x, bool doubles, cudaStream_t stream) {
  const auto& sizes = x.sizes;
  const int64_t slices = slicesOfHead(sizes);
  cudaError_t error =
      launch(kQueryGradient, doubles, blocksOfWarps(sizes, sizes.heads, sizes.queries, slices),
             kRowThreads, x, stream);
  if (error == cudaSuccess)
    error = launch(kKeyGradient, doubles, blocksOfWarps(sizes, sizes.kvHeads, sizes.keys, slices),
                   kRowThreads, x, stream);
  return error;
}

cudaError_t enqueue(const AttentionDots& x, bool doubles, cudaStream_t stream) {
  const auto& sizes = x.sizes;
  return launch(kDots, doubles, blocksOfWarps(sizes, sizes.heads, sizes.queries, 1), kRowThreads, x,
                stream);
}

cudaError_t enqueue(const AttentionMerge& x, bool doubles, cudaStream_t stream) {
  const auto& sizes = x.sizes;
  return launch(kMerge, doubles, blocksOfWarps(sizes, sizes.heads, sizes.queries, 1), kRowThreads,
                x, stream);
}

cudaError_t loadAttention() {
  return loadAll(kAttention, kDots, kQueryGradient, kKeyGradient, kMerge);
}

}  // namespace tutti::parallel::cuda
