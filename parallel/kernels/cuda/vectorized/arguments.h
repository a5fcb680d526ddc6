#pragma once

// The kernels of this folder: the arguments are those of the reference ones (launches.h), and so is
// what enqueue() promises. choice.h says which operands they take.

#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/norm_slices.h"

namespace tutti::parallel::cuda {

/// Of what a thread reads or writes at once.
inline constexpr int64_t kWordBytes = 16;

/// Computed in float32, by runs of so many neighbours of a row: 4 where all operands are float32,
/// else 8; of Move as many as have 16 bytes.
template <class Arguments>
struct InRuns : Arguments {
  int32_t run;
};

/// vectorized.cu
cudaError_t enqueue(const InRuns<MoveRows>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<Convert>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<AddRows>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<AddBias>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<Gelu>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<SwiGlu>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<Rotary>& x, cudaStream_t stream);
cudaError_t loadStreamed();

/// updates.cu: of many weights, of float32, bfloat16 and float16; the weight comes first, then the
/// gradient, then what is kept; of five the last becomes what the weight is, of 16 bits. The
/// entry's weight decay is for the one that is left out. Of a copy to another type the first
/// becomes what the second is.
template <class Rates, int kOperands>
struct Updates {
  Rates rates;
  TensorTable<kOperands> table;
};
/// Elements of a block.
inline constexpr int32_t kUpdateElements = 8 * kThreads;
struct AdamWRates {
  float gradientScale, learningRate, beta1, beta2, epsilon, weightDecay;
  float inverseCorrection1, inverseCorrection2;
};
struct SgdRates {
  float gradientScale, learningRate, weightDecay, momentum;
};
struct CopyRates {
  float weightDecay;  ///< none
};
cudaError_t enqueue(const Updates<AdamWRates, 4>& x, cudaStream_t stream);
cudaError_t enqueue(const Updates<AdamWRates, 5>& x, cudaStream_t stream);
cudaError_t enqueue(const Updates<SgdRates, 2>& x, cudaStream_t stream);
cudaError_t enqueue(const Updates<SgdRates, 3>& x, cudaStream_t stream);
cudaError_t enqueue(const Updates<CopyRates, 2>& x, cudaStream_t stream);
cudaError_t loadUpdates();

/// norms.cu: of kMostNormColumns at most, in runs of kNormRun elements whatever the types.
cudaError_t enqueue(const InRuns<NormForward>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<NormBackward>& x, cudaStream_t stream);
/// Leaves besides what the weights' gradients are sums of, for SumsOfNorms: of each
/// slice of the rows dy times the normalized x and, where there is a mean, of all of them behind
/// that, dy. Only of operands whose runOf() is not 0.
struct SlicedNormBackward {
  NormBackward of;
  float* sums;
  RowSlices slices;  ///< normSlicesOf() the rows
};
cudaError_t enqueue(const SlicedNormBackward& x, cudaStream_t stream);
cudaError_t loadNorms();

/// columns.cu: of rows and columns that are cut into slices and tiles. `partial` has the sums of
/// each slice. They are added by the same launch where there is a counter for each tile, and else
/// by a second one: the same bits.
inline constexpr int32_t kSliceRows = 128, kMostSlices = 64;
/// Of a multiple of kSliceRows each.
constexpr RowSlices slicesOf(int32_t rows) {
  const int32_t batches = (rows + kSliceRows - 1) / kSliceRows;
  const int32_t batchesOfSlice = (batches + kMostSlices - 1) / kMostSlices;
  return {(batches + batchesOfSlice - 1) / batchesOfSlice, batchesOfSlice * kSliceRows};
}
struct SlicedSums : ColumnSums {
  RowSlices slices;
};
cudaError_t enqueue(const InRuns<ColumnSums>& x, cudaStream_t stream);
/// Adds up what norms left in `partial`, of any number of slices. No rows are read.
struct SumsOfNorms {
  SlicedSums of;
};
cudaError_t enqueue(const SumsOfNorms& x, cudaStream_t stream);
cudaError_t loadColumns();

/// losses.cu: of rows that begin anywhere, in runs of as many elements whatever the types.
inline constexpr int32_t kLossRun = 8;
/// Of a block that has a whole vocabulary's row: two on a multiprocessor, or one.
inline constexpr int kThreadsOfWhole = 512, kThreadsOfLong = 1024;
/// Rows of which every multiprocessor may have two at once: 132 of them have 30 MB then, which a
/// second-level cache of 50 MB has still when they are read again.
inline constexpr int64_t kMostBytesOfWhole = int64_t{112} << 10;
cudaError_t enqueue(const InRuns<LogitStatistics>& x, cudaStream_t stream);
cudaError_t enqueue(const InRuns<CrossEntropy>& x, cudaStream_t stream);
cudaError_t loadLosses();

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
