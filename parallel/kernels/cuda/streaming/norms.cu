// arguments.h, norms.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/streaming/arguments.h"
#include "parallel/kernels/cuda/streaming/norms_device.cuh"

namespace tutti::parallel::cuda {
namespace {

/// A row's threads, and how many runs of it each of them has room for.
template <int kThreadsOfRow, int kRuns>
struct Shape {
  using Share = RowShare<kThreadsOfRow, kRuns>;
  static constexpr int kMostColumns = kThreadsOfRow * kRuns * kNormRun;
  static constexpr auto kNorm = normOfRows<kThreadsOfRow, kRuns, false>;
  static constexpr auto kNormOfSum = normOfRows<kThreadsOfRow, kRuns, true>;
  static constexpr auto kBackward = normBackwardOfRows<kThreadsOfRow, kRuns>;

  static cudaError_t start(const Norm& x, cudaStream_t stream) {
    return launch(x.residual.data == nullptr ? kNorm : kNormOfSum,
                  blocksOf(x.rows, Share::kRowsOfBlock), Share::kThreadsOfBlock, x, stream);
  }
  static cudaError_t start(const NormBackward& x, cudaStream_t stream) {
    return launch(kBackward, blocksOf(x.rows, Share::kRowsOfBlock), Share::kThreadsOfBlock, x,
                  stream);
  }
  static cudaError_t load() { return loadAll(kNorm, kNormOfSum, kBackward); }
};

using Narrow = Shape<32, 1>;
using Warps = Shape<32, 4>;
using Blocks = Shape<256, 2>;
using Wide = Shape<256, 4>;
static_assert(Wide::kMostColumns == kMostNormColumns);

template <class Arguments>
cudaError_t startFitting(const Arguments& x, cudaStream_t stream) {
  if (x.width <= Narrow::kMostColumns) return Narrow::start(x, stream);
  if (x.width <= Warps::kMostColumns) return Warps::start(x, stream);
  if (x.width <= Blocks::kMostColumns) return Blocks::start(x, stream);
  return Wide::start(x, stream);
}

}  // namespace

cudaError_t enqueue(const InRuns<Norm>& x, cudaStream_t stream) {
  return startFitting<Norm>(x, stream);
}

cudaError_t enqueue(const InRuns<NormBackward>& x, cudaStream_t stream) {
  return startFitting<NormBackward>(x, stream);
}

cudaError_t loadNorms() {
  cudaError_t error = cudaSuccess;
  for (const auto load : {Narrow::load, Warps::load, Blocks::load, Wide::load})
    if (error == cudaSuccess) error = load();
  return error;
}

}  // namespace tutti::parallel::cuda
