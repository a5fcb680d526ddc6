// arguments.h, sums.cu: by nvcc for a GPU, by g++ for the emulation.

#include <algorithm>
#include <bit>

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/sums_device.cuh"

namespace tutti::parallel::cuda {
namespace {

/// As many as tell rows, and the number of none, apart; at least one, so that tokens are sorted.
int32_t digitsOf(const SumByRow& x) {
  const int bits = std::bit_width(static_cast<uint64_t>(x.part.here));
  return std::max(1, static_cast<int32_t>(blocksOf(bits, 8)));
}

cudaError_t start(const SortPass& pass, cudaStream_t stream) {
  cudaError_t error = launch(countDigits, pass.tiles, kThreads, pass, stream);
  if (error == cudaSuccess) error = launch(placeDigits, 1, kThreads, pass, stream);
  if (error == cudaSuccess) error = launch(moveByDigit, pass.tiles, kThreads, pass, stream);
  return error;
}

/// Between two halves of the scratch.
cudaError_t sort(const SumByRow& x, SortedTokens& sorted, cudaStream_t stream) {
  const int64_t count = x.count;
  int32_t* const halves[] = {x.sorting, x.sorting + 2 * count};
  SortPass pass{.rows = x.rowOf,
                .tokens = nullptr,
                .toRows = nullptr,
                .toTokens = nullptr,
                .counts = x.sorting + 4 * count,
                .count = x.count,
                .tiles = static_cast<int32_t>(blocksOf(count, kSortTile)),
                .shift = 0};
  for (int32_t digit = 0; digit < digitsOf(x); ++digit) {
    pass.shift = 8 * digit;
    pass.toRows = halves[digit % 2];
    pass.toTokens = pass.toRows + count;
    if (const cudaError_t error = start(pass, stream); error != cudaSuccess) return error;
    pass.rows = pass.toRows;
    pass.tokens = pass.toTokens;
  }
  sorted = {pass.rows, pass.tokens, x};
  return cudaSuccess;
}

cudaError_t sumAlongLinks(const SortedTokens& sorted, cudaStream_t stream) {
  const cudaError_t error =
      launch(linkSorted, blocksOf(sorted.x.count, kThreads), kThreads, sorted, stream);
  if (error != cudaSuccess) return error;
  return enqueueLinked(sorted.x, sorted.x.dx.format == ElementFormat::Float64, stream);
}

}  // namespace

cudaError_t enqueue(const InRuns<SumByRow>& x, cudaStream_t stream) {
  SortedTokens sorted{};
  cudaError_t error = x.run == 1 ? enqueueZeros(x, stream) : cudaSuccess;
  if (error == cudaSuccess) error = enqueueRows(x, stream);
  if (error == cudaSuccess) error = sort(x, sorted, stream);
  if (error != cudaSuccess) return error;
  if (x.run == 1) return sumAlongLinks(sorted, stream);
  if (x.clears != 0) {
    const auto words = static_cast<int32_t>(x.width * bytesOf(x.to.format) / kWordBytes);
    error = launch(clearOthers, blocksOf(x.part.here, kClearedRows), kRowThreads,
                   ClearedRows{sorted, words}, stream);
  }
  if (error != cudaSuccess) return error;
  const int64_t warps = x.count * blocksOf(x.width / x.run, 32);
  return launch(x.run == 4 ? sumRuns<4> : sumRuns<8>, blocksOf(warps, kRowWarps), kRowThreads,
                sorted, stream);
}

cudaError_t loadSums() {
  return loadAll(countDigits, placeDigits, moveByDigit, linkSorted, clearOthers, sumRuns<4>,
                 sumRuns<8>);
}

}  // namespace tutti::parallel::cuda
