#pragma once

// The kernels' arguments, and for each struct enqueue(), which launches its kernel: from .cu files
// that nvcc compiles for a GPU and g++ for the emulation. Names are those of kernels.h. `doubles`:
// it computes in float64, which all operands are of. Sizes that are int32 are below 2^30; where one
// is zero nothing is launched. Each load...() loads the kernels of a file on the current device.

#include <cuda_runtime_api.h>

#include "parallel/kernels/cuda/epilogue.h"
#include "parallel/kernels/cuda/tables.h"

namespace tutti::parallel::cuda {

/// Of a block.
inline constexpr int kThreads = 256;
/// Of one that works on one row, or on several rows by a warp each.
inline constexpr int kRowThreads = 128;
inline constexpr int kRowWarps = kRowThreads / 32;

// --- gemm.cu -----------------------------------------------------------------------------------

struct Gemm {
  DeviceMatrix a, b;
  int64_t batchStrideA, batchStrideB;  ///< elements; 0: all products share it
  int32_t depth, transposeA, transposeB;
  GemmOutput out;
};
cudaError_t enqueue(const Gemm& x, bool doubles, cudaStream_t stream);
cudaError_t loadGemm();

// --- elementwise.cu ----------------------------------------------------------------------------

/// Of one type, of 1, 2, 4 or 8 bytes.
struct MoveRows {
  const void* from;
  void* to;
  RowPlaces fromRows, toRows;
  int64_t count, width;
  int32_t elementBytes;
};
cudaError_t enqueue(const MoveRows& x, cudaStream_t stream);
/// Of two types.
struct Convert {
  Elements from, to;
  RowPlaces fromRows, toRows;
  int64_t count, width;
};
cudaError_t enqueue(const Convert& x, cudaStream_t stream);
struct AddRows {
  Elements from, to;
  RowPlaces fromRows, toRows;
  int64_t count, width;
};
cudaError_t enqueue(const AddRows& x, bool doubles, cudaStream_t stream);
struct AddBias {
  Elements bias;
  DeviceMatrix y;
  int64_t rows, width;
};
cudaError_t enqueue(const AddBias& x, bool doubles, cudaStream_t stream);
/// Without dy, forward: y = GELU(x). With it y is dx.
struct Gelu {
  Elements dy, x, y;
  int64_t count;
};
cudaError_t enqueue(const Gelu& x, bool doubles, cudaStream_t stream);
/// Without dy, forward. With it y is dx, [rows, 2 width].
struct SwiGlu {
  Elements dy, x, y;
  int64_t rows, width;
};
cudaError_t enqueue(const SwiGlu& x, bool doubles, cudaStream_t stream);
struct Rotary {
  Elements x, cosine, sine;
  const int32_t* at;  ///< null: 0, 1, 2, ...
  int64_t rows, columns;
  int32_t context, positions, heads, half, back;
};
cudaError_t enqueue(const Rotary& x, bool doubles, cudaStream_t stream);
struct AdamWUpdate {
  Elements weight, gradient, first, second;
  int64_t count;
  double gradientScale, learningRate, beta1, beta2, epsilon, weightDecay;
  double inverseCorrection1, inverseCorrection2;
};
cudaError_t enqueue(const AdamWUpdate& x, bool doubles, cudaStream_t stream);
struct SgdUpdate {
  Elements weight, gradient, velocity;
  int64_t count;
  double gradientScale, learningRate, weightDecay, momentum;
};
cudaError_t enqueue(const SgdUpdate& x, bool doubles, cudaStream_t stream);
cudaError_t loadElementwise();

// --- norm.cu -----------------------------------------------------------------------------------

/// Without a mean it is rmsNorm, which has no bias either. With a residual x becomes their sum.
struct NormForward {
  Elements x, weight, bias, y, mean, rstd, residual;
  int32_t rows, width;
  double epsilon;
};
cudaError_t enqueue(const NormForward& x, bool doubles, cudaStream_t stream);
struct NormBackward {
  Elements dy, x, weight, mean, rstd, residual, dx;
  int32_t rows, width;
};
cudaError_t enqueue(const NormBackward& x, bool doubles, cudaStream_t stream);
/// Numbers that are zero, and zero again behind the launch.
struct BlockArrivals {
  uint32_t* counts;
  int32_t most;
};
/// Sums over rows of dy, or where there is an x, of dy times x as it was normalized; with an x also
/// those of dy, where they are wanted.
struct ColumnSums {
  DeviceMatrix dy;
  Elements x, mean, rstd, sums, sumsOfDy;
  float* partial;  ///< scratch, of as many as partialSumsOf() of vectorized/choice.h says
  BlockArrivals
      arrivals;  ///< where there is scratch, for tiles of columns (vectorized/arguments.h)
  int32_t rows, width, accumulate, accumulateOfDy;
};
cudaError_t enqueue(const ColumnSums& x, bool doubles, cudaStream_t stream);
cudaError_t loadNorm();

// --- attention.cu ------------------------------------------------------------------------------

/// Of its own position and those before it the keys that a query sees.
struct AttentionReaches {
  int64_t window;         ///< so many; 0: all
  const int32_t* starts;  ///< of each sequence: where its documents begin, ascending
  int64_t startsStride;   ///< from one sequence to the next
  int32_t documents;      ///< of a sequence; 0: there are no starts
};
struct AttentionSizes {
  int32_t batch, heads, kvHeads, headWidth, queries, keys;
  int64_t firstQuery, firstKey;  ///< positions
  double scale;                  ///< of scores
  AttentionReaches reach;
};
struct AttentionForward {
  AttentionSizes sizes;
  HeadRows query, key, value, out;
  HeadScalars logSumExp;
};
cudaError_t enqueue(const AttentionForward& x, bool doubles, cudaStream_t stream);
/// Needs the dots.
struct AttentionBackward {
  AttentionSizes sizes;
  HeadRows dOut, query, key, value, dQuery, dKey, dValue;
  HeadScalars logSumExp, dots;
  int32_t adds;    ///< to gradients that are there
  float* scratch;  ///< of as many as Attentions::scratchOf() says, aligned to 16 bytes
};
cudaError_t enqueue(const AttentionBackward& x, bool doubles, cudaStream_t stream);
/// dots = dOut * out, of each query.
struct AttentionDots {
  AttentionSizes sizes;
  HeadRows dOut, out;
  HeadScalars dots;
};
cudaError_t enqueue(const AttentionDots& x, bool doubles, cudaStream_t stream);
struct AttentionMerge {
  AttentionSizes sizes;
  HeadRows part, out;
  HeadScalars partLogSumExp, logSumExp;
};
cudaError_t enqueue(const AttentionMerge& x, bool doubles, cudaStream_t stream);
cudaError_t loadAttention();

// --- tokens.cu ---------------------------------------------------------------------------------

/// The first of some numbers that is not in [lowest, end).
struct FirstOutside {
  int64_t index;  ///< -1: there is none
  int32_t value;
};
struct FindOutside {
  const int32_t* values;
  int64_t count;
  int32_t lowest;
  int64_t end;
  FirstOutside* found;
};
cudaError_t enqueue(const FindOutside& x, cudaStream_t stream);

/// Rows `first` to `first + here` of a vocabulary.
struct VocabularyPart {
  int64_t first, here;
};
struct Embedding {
  const int32_t *tokenIds, *at;
  Elements tokens, positions, x;
  VocabularyPart part;
  int32_t rows, context, width, positionRows;
};
cudaError_t enqueue(const Embedding& x, bool doubles, cudaStream_t stream);
/// to[row of i] += dx[i], in the order of i, where the row of a token is that of its id or of its
/// position.
struct SumByRow {
  const int32_t* tokenIds;  ///< null: by positions
  const int32_t* at;        ///< of positions; null: 0, 1, 2, ...
  VocabularyPart part;      ///< of positions all there are
  Elements dx, to;
  int32_t *rowOf, *next, *hasPrevious;  ///< scratch: `count` numbers each
  int32_t* sorting;                     ///< scratch of kernels that sort (vectorized/arguments.h)
  int32_t count, context, width, accumulate;
  int32_t clears;  ///< rows that have no token become zero; not with accumulate
};
cudaError_t enqueue(const SumByRow& x, bool doubles, cudaStream_t stream);
/// Of what it does: that all rows become zero if it clears; the first of its kernels, which finds
/// rows; the last, which adds up what is linked.
cudaError_t enqueueZeros(const SumByRow& x, cudaStream_t stream);
cudaError_t enqueueRows(const SumByRow& x, cudaStream_t stream);
cudaError_t enqueueLinked(const SumByRow& x, bool doubles, cudaStream_t stream);
struct LogitStatistics {
  Elements logits, statistics;
  const int32_t* labels;
  VocabularyPart part;
  int32_t rows, width;
  int64_t stride;  ///< elements from one row of logits to the next
};
cudaError_t enqueue(const LogitStatistics& x, bool doubles, cudaStream_t stream);
struct CrossEntropy {
  Elements logits, statistics;  ///< no statistics: the logits' own
  const int32_t* labels;
  VocabularyPart part;
  double* losses;  ///< of each row; 0 where that does not count
  int32_t rows, width, ranks, gradient;
  double scale;
  int64_t stride;  ///< elements from one row of logits to the next
};
cudaError_t enqueue(const CrossEntropy& x, bool doubles, cudaStream_t stream);
cudaError_t loadTokens();

// --- experts.cu --------------------------------------------------------------------------------

struct Route {
  Elements logits, probabilities, logSumExp, weights;
  Elements
      wide;  ///< [rows, experts] of the type that is computed in: the probabilities, or scratch
  int32_t* chosen;
  int32_t rows, experts, choices, normalized;
};
cudaError_t enqueue(const Route& x, bool doubles, cudaStream_t stream);
/// Which choices are of one sequence and piece.
struct Pieces {
  int32_t rowsOfSequence, early, choices, experts;
};
struct CountChoices {
  const int32_t* chosen;
  int32_t* counts;  ///< zero
  int64_t count;
  Pieces pieces;
};
cudaError_t enqueue(const CountChoices& x, cudaStream_t stream);
struct PlaceTokens {
  const int32_t *chosen, *counts;
  int32_t *places, *choices;
  int64_t* loads;
  Pieces pieces;
  int32_t count, sequences, piecesOfSequence, own[2];
  int64_t capacity;
};
cudaError_t enqueue(const PlaceTokens& x, cudaStream_t stream);
struct RouterGradient {
  Elements dWeights, probabilities, logSumExp, weights, dLogits;
  const int32_t *chosen, *choices;
  double *balances, *zs;  ///< of each row, what it adds to the losses
  int32_t rows, experts, choicesOfRow, rowsOfSequence, normalized;
  double length, balance, z;
};
cudaError_t enqueue(const RouterGradient& x, bool doubles, cudaStream_t stream);
/// Rows of tokens, and those that places name.
struct Placed {
  Elements rows, placed, weights;  ///< without weights: 1
  const int32_t* places;
  int32_t count;  ///< of choices; for combineRows of rows
  int32_t choices, width, placedRows;
};
struct SpreadRows : Placed {};
cudaError_t enqueue(const SpreadRows& x, bool doubles, cudaStream_t stream);
struct CombineRows : Placed {};
cudaError_t enqueue(const CombineRows& x, bool doubles, cudaStream_t stream);
/// The weights are the result.
struct RowDots : Placed {};
cudaError_t enqueue(const RowDots& x, bool doubles, cudaStream_t stream);
cudaError_t loadExperts();

// --- sum.cu ------------------------------------------------------------------------------------

/// Limbs as ExactSum has them, and the number of elements that are not finite, as 64-bit integers.
struct AddSquares {
  TensorTable<1> table;
  unsigned long long* limbs;  ///< added to
};
/// Of a block, which is as many as the host puts in one set of bins: one element that is not finite
/// counts once for all of these there, too.
inline constexpr int64_t kSumElements = int64_t{1} << 15;
cudaError_t enqueue(const AddSquares& x, bool doubles, cudaStream_t stream);
cudaError_t loadSum();

}  // namespace tutti::parallel::cuda
