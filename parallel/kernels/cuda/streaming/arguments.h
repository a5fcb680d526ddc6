#pragma once

// The kernels of this folder: the arguments are those of the plain ones (launches.h), and so is
// what enqueue() promises. choice.h says which operands they take.

#include "parallel/kernels/cuda/launches.h"

namespace tutti::parallel::cuda {

/// Computed in float32, by runs of so many neighbours of a row: 4 where all operands are float32,
/// else 8; of Move as many as have 16 bytes.
template <class Arguments>
struct InRuns : Arguments {
  int32_t run;
};

/// streamed.cu
cudaError_t enqueue(const InRuns<Move>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<Convert>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<Add>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<AddBias>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<Gelu>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<SwiGlu>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<Rotary>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<AdamW>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<Sgd>& x, cudaStream_t stream);
cudaError_t loadStreamed();

/// norms.cu: of so many columns at most, in runs of as many elements whatever the types.
inline constexpr int32_t kNormRun = 8;
inline constexpr int32_t kMostNormColumns = 8192;
cudaError_t enqueue(const InRuns<Norm>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<NormBackward>& x, cudaStream_t stream);
cudaError_t loadNorms();

/// placed.cu
cudaError_t enqueue(const InRuns<Embedding>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<SpreadRows>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<CombineRows>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<RowDots>& x, cudaStream_t stream);
cudaError_t loadPlaced();

/// heads.cu
cudaError_t enqueue(const InRuns<AttentionMerge>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<AttentionDots>& x, cudaStream_t stream);
cudaError_t loadHeads();

/// sums.cu. A run of 1: only the links are made another way, of any operands.
inline constexpr int32_t kSortDigits = 256, kSortTile = 1024;
/// Of SumByRow::sorting.
constexpr int64_t sortingNumbers(int64_t count) {
  return 4 * count + (count + kSortTile - 1) / kSortTile * kSortDigits;
}
cudaError_t enqueue(const InRuns<SumByRow>& x, cudaStream_t stream);
cudaError_t loadSums();

}  // namespace tutti::parallel::cuda
