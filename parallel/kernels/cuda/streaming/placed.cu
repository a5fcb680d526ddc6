// arguments.h, placed.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/streaming/arguments.h"
#include "parallel/kernels/cuda/streaming/placed_device.cuh"

namespace tutti::parallel::cuda {
namespace {

/// Of rows, the last dimension of which is `last`.
template <class Arguments>
PlacedRuns<Arguments> runsOver(const InRuns<Arguments>& x, int64_t rows, int64_t last) {
  return {rowSpace(rows * x.width, x.width, 1, last, x.run), x};
}

template <class Arguments>
cudaError_t start(void (*four)(PlacedRuns<Arguments>), void (*eight)(PlacedRuns<Arguments>),
                  const PlacedRuns<Arguments>& runs, int32_t run, cudaStream_t stream) {
  return launch(run == 4 ? four : eight, blocksOf(runs.space.runs, kThreads), kThreads, runs,
                stream);
}

}  // namespace

cudaError_t enqueue(const InRuns<Embedding>& x, cudaStream_t stream) {
  return start(embeddingRuns<4>, embeddingRuns<8>, runsOver(x, x.rows, x.context), x.run, stream);
}

cudaError_t enqueue(const InRuns<SpreadRows>& x, cudaStream_t stream) {
  const int64_t rows = x.count / x.choices;
  return start(spreadRuns<4>, spreadRuns<8>, runsOver(x, rows, rows), x.run, stream);
}

cudaError_t enqueue(const InRuns<CombineRows>& x, cudaStream_t stream) {
  return start(combineRuns<4>, combineRuns<8>, runsOver(x, x.count, x.count), x.run, stream);
}

cudaError_t enqueue(const InRuns<RowDots>& x, cudaStream_t stream) {
  const RowDots& dots = x;
  return launch(x.run == 4 ? dotRuns<4> : dotRuns<8>, blocksOf(x.count, kRowWarps), kRowThreads,
                dots, stream);
}

cudaError_t loadPlaced() {
  return loadAll(embeddingRuns<4>, embeddingRuns<8>, spreadRuns<4>, spreadRuns<8>, combineRuns<4>,
                 combineRuns<8>, dotRuns<4>, dotRuns<8>);
}

}  // namespace tutti::parallel::cuda
