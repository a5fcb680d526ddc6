// arguments.h, placed.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/placed_device.cuh"

namespace tutti::parallel::cuda {
namespace {

/// Of rows, the last dimension of which is `last`.
template <class Arguments>
PlacedRuns<Arguments> runsOver(const InRuns<Arguments>& x, int64_t rows, int64_t last) {
  return {rowSpace(rows * x.width, x.width, 1, last, x.run), x};
}

template <int kRun, int kKnown>
struct PlacedKernels {
  static constexpr auto kEmbedding = embeddingRuns<kRun, kKnown, false>;
  static constexpr auto kWithPositions = embeddingRuns<kRun, kKnown, true>;
  static constexpr auto kSpread = spreadRuns<kRun, kKnown>;
  static constexpr auto kCombineTwo = combineRuns<kRun, kKnown, 2>;
  static constexpr auto kCombine = combineRuns<kRun, kKnown, 4>;
  static constexpr auto kDots = dotRuns<kRun, kKnown>;

  template <class Arguments>
  static cudaError_t start(void (*kernel)(PlacedRuns<Arguments>), const PlacedRuns<Arguments>& runs,
                           int runsOfThread, cudaStream_t stream) {
    return launch(kernel, blocksOf(runs.space.runs, int64_t{kThreads} * runsOfThread), kThreads,
                  runs, stream);
  }
  static cudaError_t start(const InRuns<Embedding>& x, cudaStream_t stream) {
    return start(x.positions.data == nullptr ? kEmbedding : kWithPositions,
                 runsOver(x, x.rows, x.context), kEmbeddedRuns, stream);
  }
  static cudaError_t start(const InRuns<SpreadRows>& x, cudaStream_t stream) {
    const int64_t rows = x.count / x.choices;
    return start(kSpread, runsOver(x, rows, rows), kMovedRuns, stream);
  }
  static cudaError_t start(const InRuns<CombineRows>& x, cudaStream_t stream) {
    return start(x.choices > 2 ? kCombine : kCombineTwo, runsOver(x, x.count, x.count), kMovedRuns,
                 stream);
  }
  static cudaError_t start(const InRuns<RowDots>& x, cudaStream_t stream) {
    const RowDots& dots = x;
    return launch(kDots, blocksOf(x.count, kRowWarps), kRowThreads, dots, stream);
  }
  static cudaError_t load() {
    return loadAll(kEmbedding, kWithPositions, kSpread, kCombineTwo, kCombine, kDots);
  }
};

/// `known`: what all rows are of.
template <class Arguments>
cudaError_t startKnown(const InRuns<Arguments>& x, int known, cudaStream_t stream) {
  if (x.run == 4) return PlacedKernels<4, kFloat>::start(x, stream);
  if (known == kBrain) return PlacedKernels<8, kBrain>::start(x, stream);
  if (known == kHalf) return PlacedKernels<8, kHalf>::start(x, stream);
  return PlacedKernels<8, kAnyFormat>::start(x, stream);
}

int formatOf(const Placed& x) { return narrowFormatOf({x.rows, x.placed}); }

}  // namespace

cudaError_t enqueue(const InRuns<Embedding>& x, cudaStream_t stream) {
  return startKnown(x, narrowFormatOf({x.tokens, x.positions, x.x}), stream);
}

cudaError_t enqueue(const InRuns<SpreadRows>& x, cudaStream_t stream) {
  return startKnown(x, formatOf(x), stream);
}

cudaError_t enqueue(const InRuns<CombineRows>& x, cudaStream_t stream) {
  return startKnown(x, formatOf(x), stream);
}

cudaError_t enqueue(const InRuns<RowDots>& x, cudaStream_t stream) {
  return startKnown(x, formatOf(x), stream);
}

cudaError_t loadPlaced() {
  cudaError_t error = cudaSuccess;
  for (const auto load : {PlacedKernels<4, kFloat>::load, PlacedKernels<8, kAnyFormat>::load,
                          PlacedKernels<8, kBrain>::load, PlacedKernels<8, kHalf>::load})
    if (error == cudaSuccess) error = load();
  return error;
}

}  // namespace tutti::parallel::cuda
