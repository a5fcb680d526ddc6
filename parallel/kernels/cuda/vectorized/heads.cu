// arguments.h, heads.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/heads_device.cuh"

namespace tutti::parallel::cuda {
namespace {

/// By how many lanes have a row: as many as it has runs, or the next power of two; where they
/// merge, each has several.
template <int kRun, int kLanes, int kKnown>
struct HeadKernelSet {
  static constexpr int kMergingLanes = kLanes / kMergedRuns;
  static constexpr auto kMerge = mergeRuns<kRun, kMergingLanes, kKnown>;
  static constexpr auto kDots = headDots<kRun, kLanes, kKnown>;

  static int64_t rowsOf(const AttentionSizes& sizes) {
    return int64_t{sizes.batch} * sizes.heads * sizes.queries;
  }
  static cudaError_t start(const HeadRuns<AttentionMerge>& runs, cudaStream_t stream) {
    return launch(kMerge, blocksOf(rowsOf(runs.x.sizes), kRowThreads / kMergingLanes), kRowThreads,
                  runs, stream);
  }
  static cudaError_t start(const HeadRuns<AttentionDots>& runs, cudaStream_t stream) {
    return launch(kDots, blocksOf(rowsOf(runs.x.sizes), kRowThreads / kLanes), kRowThreads, runs,
                  stream);
  }
  static cudaError_t load() { return loadAll(kMerge, kDots); }
};

template <int kRun, int kKnown>
struct HeadLaneCount {
  template <class Arguments>
  static cudaError_t start(const Arguments& x, cudaStream_t stream) {
    const HeadRuns<Arguments> runs{x, dividerBy(static_cast<uint32_t>(x.sizes.heads)),
                                   dividerBy(static_cast<uint32_t>(x.sizes.queries))};
    const int32_t runsOfRow = x.sizes.headWidth / kRun;
    if (runsOfRow <= 8) return HeadKernelSet<kRun, 8, kKnown>::start(runs, stream);
    if (runsOfRow <= 16) return HeadKernelSet<kRun, 16, kKnown>::start(runs, stream);
    return HeadKernelSet<kRun, 32, kKnown>::start(runs, stream);
  }
  static cudaError_t load() {
    cudaError_t error = HeadKernelSet<kRun, 8, kKnown>::load();
    if (error == cudaSuccess) error = HeadKernelSet<kRun, 16, kKnown>::load();
    return error == cudaSuccess ? HeadKernelSet<kRun, 32, kKnown>::load() : error;
  }
};

/// `known`: what both operands are of.
template <class Arguments>
cudaError_t startKnown(const Arguments& x, int32_t run, int known, cudaStream_t stream) {
  if (run == 4) return HeadLaneCount<4, kFloat>::start(x, stream);
  if (known == kBrain) return HeadLaneCount<8, kBrain>::start(x, stream);
  if (known == kHalf) return HeadLaneCount<8, kHalf>::start(x, stream);
  return HeadLaneCount<8, kAnyFormat>::start(x, stream);
}

}  // namespace

cudaError_t enqueue(const InRuns<AttentionMerge>& x, cudaStream_t stream) {
  return startKnown<AttentionMerge>(x, x.run, narrowFormatOf({x.part.elements, x.out.elements}),
                                    stream);
}

cudaError_t enqueue(const InRuns<AttentionDots>& x, cudaStream_t stream) {
  return startKnown<AttentionDots>(x, x.run, narrowFormatOf({x.dOut.elements, x.out.elements}),
                                   stream);
}

cudaError_t loadHeads() {
  cudaError_t error = cudaSuccess;
  for (const auto load : {HeadLaneCount<4, kFloat>::load, HeadLaneCount<8, kAnyFormat>::load,
                          HeadLaneCount<8, kBrain>::load, HeadLaneCount<8, kHalf>::load})
    if (error == cudaSuccess) error = load();
  return error;
}

}  // namespace tutti::parallel::cuda
