#pragma once

// Which kernels compute what the memory's bandwidth bounds: those of this folder where operands
// allow, else the reference ones.

#include "parallel/kernels/cuda/launches.h"

namespace tutti::parallel::cuda {

/// Reference: one element at a time, of any types and widths. Vectorized: by words of 16 bytes.
enum class MemoryBoundFamily { Reference, Vectorized };

/// What TUTTI_MEMORY_BOUND says: `reference` or `vectorized`; without it Vectorized. Throws
/// InvalidArgument for any other word.
MemoryBoundFamily memoryBoundOfEnvironment();

// How many neighbours the kernels take at once (arguments.h): 0 where these operands are for the
// reference ones, as they are where something is of float64, where an operand or a row of it does
// not begin at a multiple of 16 bytes, and where a row is no multiple of that many elements.

int32_t runOf(const MoveRows& x);
int32_t runOf(const Convert& x);
int32_t runOf(const AddRows& x);
int32_t runOf(const AddBias& x);
int32_t runOf(const Gelu& x);
int32_t runOf(const SwiGlu& x);
int32_t runOf(const Rotary& x);
/// Of these kNormRun or 0, which it is, too, for rows of more than kMostNormColumns.
int32_t runOf(const NormForward& x);
int32_t runOf(const NormBackward& x);
/// Of these a row's width and distance are multiples of kNormRun, too.
int32_t runOf(const ColumnSums& x);
/// Of these kLossRun or 0; rows of logits may have any width and begin anywhere.
int32_t runOf(const LogitStatistics& x);
int32_t runOf(const CrossEntropy& x);

int32_t runOf(const Embedding& x);
int32_t runOf(const SpreadRows& x);
int32_t runOf(const CombineRows& x);
int32_t runOf(const RowDots& x);
int32_t runOf(const AttentionMerge& x);
int32_t runOf(const AttentionDots& x);
/// Of this 1 where others have 0: what it sorts is of no type.
int32_t runOf(const SumByRow& x);

/// Numbers of scratch that these sums need: 0 for the reference kernels, and where rows are one
/// slice.
int64_t partialSumsOf(const ColumnSums& x);

}  // namespace tutti::parallel::cuda
