// arguments.h, norms.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/streaming/arguments.h"
#include "parallel/kernels/cuda/streaming/norms_device.cuh"

namespace tutti::parallel::cuda {
namespace {

/// A row's threads, and how many elements of it each of them has room for.
template <int kThreadsOfRow, int kElements>
struct Shape {
  static constexpr int kMostColumns = kThreadsOfRow * kElements;
  template <int kRun>
  using Share = RowShare<kRun, kThreadsOfRow, kElements / kRun>;
  static constexpr auto kFour = normOfRows<4, kThreadsOfRow, kElements / 4>,
                        kEight = normOfRows<8, kThreadsOfRow, kElements / 8>;
  static constexpr auto kFourBack = normBackwardOfRows<4, kThreadsOfRow, kElements / 4>,
                        kEightBack = normBackwardOfRows<8, kThreadsOfRow, kElements / 8>;

  static cudaError_t start(const InRuns<Norm>& x, cudaStream_t stream) {
    return launch(x.run == 4 ? kFour : kEight, blocksOf(x.rows, Share<4>::kRowsOfBlock),
                  Share<4>::kThreadsOfBlock, static_cast<const Norm&>(x), stream);
  }
  static cudaError_t start(const InRuns<NormBackward>& x, cudaStream_t stream) {
    return launch(x.run == 4 ? kFourBack : kEightBack, blocksOf(x.rows, Share<4>::kRowsOfBlock),
                  Share<4>::kThreadsOfBlock, static_cast<const NormBackward&>(x), stream);
  }
  static cudaError_t load() { return loadAll(kFour, kEight, kFourBack, kEightBack); }
};

using Narrow = Shape<32, 8>;
using Warps = Shape<32, 32>;
using Blocks = Shape<256, 16>;
using Wide = Shape<256, 32>;
static_assert(Wide::kMostColumns == kMostNormColumns);

template <class Arguments>
cudaError_t startFitting(const Arguments& x, cudaStream_t stream) {
  if (x.width <= Narrow::kMostColumns) return Narrow::start(x, stream);
  if (x.width <= Warps::kMostColumns) return Warps::start(x, stream);
  if (x.width <= Blocks::kMostColumns) return Blocks::start(x, stream);
  return Wide::start(x, stream);
}

}  // namespace

cudaError_t enqueue(const InRuns<Norm>& x, cudaStream_t stream) { return startFitting(x, stream); }

cudaError_t enqueue(const InRuns<NormBackward>& x, cudaStream_t stream) {
  return startFitting(x, stream);
}

cudaError_t loadNorms() {
  cudaError_t error = cudaSuccess;
  for (const auto load : {Narrow::load, Warps::load, Blocks::load, Wide::load})
    if (error == cudaSuccess) error = load();
  return error;
}

}  // namespace tutti::parallel::cuda
