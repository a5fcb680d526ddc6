// arguments.h, columns.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/columns_device.cuh"

namespace tutti::parallel::cuda {
namespace {

static_assert(kRowsOfThread * kRowLanes == kSliceRows);
static_assert(kSlicesOfThread * kSliceGroups<kColumnsOfBlock> == kMostSlices);
static_assert(kSliceGroups<kColumnsOfBlock> == kBlockWarps, "of a block in the same memory");

/// Of dy; of dy times the normalized x; of both.
template <int kRun, int kKnown>
struct SliceKernels {
  static constexpr auto kOfDy = sumsOfSlices<kRun, false, false, kKnown>;
  static constexpr auto kProducts = sumsOfSlices<kRun, true, false, kKnown>;
  static constexpr auto kBoth = sumsOfSlices<kRun, true, true, kKnown>;

  static cudaError_t start(const SlicedSums& x, cudaStream_t stream) {
    const auto kernel = x.x.data == nullptr          ? kOfDy
                        : x.sumsOfDy.data == nullptr ? kProducts
                                                     : kBoth;
    return launch(kernel, blocksOf(x.width, kTileColumns<kRun>) * x.slices.count, kThreads, x,
                  stream);
  }
  static cudaError_t load() { return loadAll(kOfDy, kProducts, kBoth); }
};
using Fours = SliceKernels<4, kFloat>;
using Eights = SliceKernels<8, kAnyFormat>;
using Brains = SliceKernels<8, kBrain>;
using Halves = SliceKernels<8, kHalf>;

cudaError_t start(const SlicedSums& x, int32_t run, cudaStream_t stream) {
  if (run == 4) return Fours::start(x, stream);
  const int known = areFloats({x.mean, x.rstd}) ? narrowFormatOf({x.dy.elements, x.x}) : kAnyFormat;
  if (known == kBrain) return Brains::start(x, stream);
  if (known == kHalf) return Halves::start(x, stream);
  return Eights::start(x, stream);
}

template <int kColumns>
cudaError_t startSecond(const SlicedSums& x, cudaStream_t stream) {
  const int sums = x.sumsOfDy.data == nullptr ? 1 : 2;
  return launch(sumsOfColumns<kColumns>, blocksOf(x.width, kColumns) * sums, kThreads, x, stream);
}

}  // namespace

cudaError_t enqueue(const InRuns<ColumnSums>& x, cudaStream_t stream) {
  SlicedSums sliced{x, slicesOf(x.rows)};
  const bool isOneSlice = sliced.slices.count == 1;
  const bool isCounted = blocksOf(x.width, kColumnLanes * x.run) <= x.arrivals.most;
  if (isOneSlice || !isCounted) sliced.arrivals = {};
  const cudaError_t error = start(sliced, x.run, stream);
  if (error != cudaSuccess || isOneSlice || isCounted) return error;
  return startSecond<kColumnsOfBlock>(sliced, stream);
}

cudaError_t enqueue(const SumsOfNorms& x, cudaStream_t stream) {
  return startSecond<kColumnsOfNorms>(x.of, stream);
}

cudaError_t loadColumns() {
  cudaError_t error = loadAll(sumsOfColumns<kColumnsOfBlock>, sumsOfColumns<kColumnsOfNorms>);
  for (const auto load : {Fours::load, Eights::load, Brains::load, Halves::load})
    if (error == cudaSuccess) error = load();
  return error;
}

}  // namespace tutti::parallel::cuda
