// arguments.h, norms.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/norms_device.cuh"

namespace tutti::parallel::cuda {
namespace {

/// A row's threads, how many runs of it each of them has room for, and what is known of formats.
template <int kThreadsOfRow, int kRuns, int kKnown>
struct NormShape {
  using Share = RowShare<kThreadsOfRow, kRuns>;
  static constexpr int kMostColumns = kThreadsOfRow * kRuns * kNormRun;
  static constexpr auto kNorm = normOfRows<kThreadsOfRow, kRuns, false, kKnown>;
  static constexpr auto kNormOfSum = normOfRows<kThreadsOfRow, kRuns, true, kKnown>;
  static constexpr auto kBackward = normBackwardOfRows<kThreadsOfRow, kRuns, false, kKnown>;
  static constexpr auto kBackwardAdding = normBackwardOfRows<kThreadsOfRow, kRuns, true, kKnown>;
  template <bool kAdds, int kSums>
  static constexpr auto kOfSlices =
      normBackwardOfSlices<kThreadsOfRow, kRuns, kAdds, kSums, kKnown>;

  static cudaError_t start(const NormForward& x, cudaStream_t stream) {
    return launch(x.residual.data == nullptr ? kNorm : kNormOfSum,
                  blocksOf(x.rows, Share::kRowsOfBlock), Share::kThreadsOfBlock, x, stream);
  }
  static cudaError_t start(const NormBackward& x, cudaStream_t stream) {
    return launch(x.residual.data == nullptr ? kBackward : kBackwardAdding,
                  blocksOf(x.rows, Share::kRowsOfBlock), Share::kThreadsOfBlock, x, stream);
  }
  static cudaError_t start(const SlicedNormBackward& x, cudaStream_t stream) {
    const bool adds = x.of.residual.data != nullptr;
    const auto kernel = x.of.mean.data == nullptr ? adds ? kOfSlices<true, 1> : kOfSlices<false, 1>
                        : adds ? kOfSlices<true, 2>
                                                  : kOfSlices<false, 2>;
    return launch(kernel, x.slices.count, Share::kThreadsOfBlock, x, stream);
  }
  static cudaError_t load() {
    return loadAll(kNorm, kNormOfSum, kBackward, kBackwardAdding, kOfSlices<false, 1>,
                   kOfSlices<true, 1>, kOfSlices<false, 2>, kOfSlices<true, 2>);
  }
};

template <int kKnown>
struct Shapes {
  using Narrow = NormShape<32, 1, kKnown>;
  using Warps = NormShape<32, 4, kKnown>;
  using Blocks = NormShape<128, 4, kKnown>;
  using Wide = NormShape<256, 4, kKnown>;
  static_assert(Wide::kMostColumns == kMostNormColumns);

  template <class Arguments>
  static cudaError_t start(int32_t width, const Arguments& x, cudaStream_t stream) {
    if (width <= Narrow::kMostColumns) return Narrow::start(x, stream);
    if (width <= Warps::kMostColumns) return Warps::start(x, stream);
    if (width <= Blocks::kMostColumns) return Blocks::start(x, stream);
    return Wide::start(x, stream);
  }
  static cudaError_t load() {
    cudaError_t error = cudaSuccess;
    for (const auto load : {Narrow::load, Warps::load, Blocks::load, Wide::load})
      if (error == cudaSuccess) error = load();
    return error;
  }
};

/// `known`: what all operands of elements are of.
template <class Arguments>
cudaError_t startKnown(int known, int32_t width, const Arguments& x, cudaStream_t stream) {
  if (known == kBrain) return Shapes<kBrain>::start(width, x, stream);
  if (known == kHalf) return Shapes<kHalf>::start(width, x, stream);
  return Shapes<kAnyFormat>::start(width, x, stream);
}

int knownFormatOf(const NormBackward& x) {
  return narrowFormatOf({x.dy, x.x, x.weight, x.residual, x.dx});
}

}  // namespace

cudaError_t enqueue(const InRuns<NormForward>& x, cudaStream_t stream) {
  return startKnown<NormForward>(narrowFormatOf({x.x, x.weight, x.bias, x.y, x.residual}), x.width,
                                 x, stream);
}

cudaError_t enqueue(const InRuns<NormBackward>& x, cudaStream_t stream) {
  return startKnown<NormBackward>(knownFormatOf(x), x.width, x, stream);
}

cudaError_t enqueue(const SlicedNormBackward& x, cudaStream_t stream) {
  return startKnown(knownFormatOf(x.of), x.of.width, x, stream);
}

cudaError_t loadNorms() {
  cudaError_t error = cudaSuccess;
  for (const auto load : {Shapes<kAnyFormat>::load, Shapes<kBrain>::load, Shapes<kHalf>::load})
    if (error == cudaSuccess) error = load();
  return error;
}

}  // namespace tutti::parallel::cuda
