// arguments.h, heads.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/streaming/arguments.h"
#include "parallel/kernels/cuda/streaming/heads_device.cuh"

namespace tutti::parallel::cuda {
namespace {

/// By how many lanes have a row: as many as it has runs, or the next power of two.
template <int kLanes>
struct Lanes {
  static constexpr auto kMergeFour = mergeRuns<4, kLanes>, kMergeEight = mergeRuns<8, kLanes>;
  static constexpr auto kDotsFour = headDots<4, kLanes>, kDotsEight = headDots<8, kLanes>;

  static int64_t blocks(const AttentionSizes& sizes) {
    return blocksOf(int64_t{sizes.batch} * sizes.heads * sizes.queries, kRowThreads / kLanes);
  }
  static cudaError_t start(const AttentionMerge& x, int32_t run, cudaStream_t stream) {
    return launch(run == 4 ? kMergeFour : kMergeEight, blocks(x.sizes), kRowThreads, x, stream);
  }
  static cudaError_t start(const AttentionDots& x, int32_t run, cudaStream_t stream) {
    return launch(run == 4 ? kDotsFour : kDotsEight, blocks(x.sizes), kRowThreads, x, stream);
  }
  static cudaError_t load() { return loadAll(kMergeFour, kMergeEight, kDotsFour, kDotsEight); }
};

template <class Arguments>
cudaError_t startFitting(const Arguments& x, int32_t run, cudaStream_t stream) {
  const int32_t runs = x.sizes.headWidth / run;
  if (runs <= 8) return Lanes<8>::start(x, run, stream);
  if (runs <= 16) return Lanes<16>::start(x, run, stream);
  return Lanes<32>::start(x, run, stream);
}

}  // namespace

cudaError_t enqueue(const InRuns<AttentionMerge>& x, cudaStream_t stream) {
  return startFitting<AttentionMerge>(x, x.run, stream);
}

cudaError_t enqueue(const InRuns<AttentionDots>& x, cudaStream_t stream) {
  return startFitting<AttentionDots>(x, x.run, stream);
}

cudaError_t loadHeads() {
  cudaError_t error = Lanes<8>::load();
  if (error == cudaSuccess) error = Lanes<16>::load();
  return error == cudaSuccess ? Lanes<32>::load() : error;
}

}  // namespace tutti::parallel::cuda
