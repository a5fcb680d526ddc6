#pragma once

// Kernels that memory bounds, enqueued by themselves: those that Kernels has as parts of calls
// alone, and those of calls that wait for a result, or for ids to be checked, without the wait.
// Operands are on the current GPU, contiguous. Arguments of calls are as those say; nothing is
// checked. All throw Cuda.

#include <span>

#include "parallel/kernels/kernels.h"

struct CUstream_st;

namespace tutti::bench {

/// What attention's backward begins with: of each row of each head the products of dOut and out.
struct AttentionDotsOperands {
  parallel::Tensor dOut, out;  ///< [sequences, context, width]
  parallel::Tensor dots;       ///< float32 [sequences, heads, context]
};
void launchAttentionDots(const AttentionDotsOperands& x, CUstream_st* stream);

/// What products end with whose depth is split: c += the sum of what splits gave.
struct SplitsOperands {
  parallel::Tensor partial;  ///< float32 [products, splits, rows, columns], of a multiple of 4
  parallel::Tensor c;        ///< [products, rows, columns]
};
void launchSumOfSplits(const SplitsOperands& x, CUstream_st* stream);

void launchLogitStatistics(const parallel::LogitStatisticsArgs& x, CUstream_st* stream);

struct CrossEntropyOperands {
  parallel::CrossEntropyArgs args;
  parallel::Tensor losses;  ///< float64 [rows], which the call adds up on the host
};
void launchCrossEntropy(const CrossEntropyOperands& x, CUstream_st* stream);

struct SquaresOperands {
  std::span<const parallel::Tensor> all;
  parallel::Tensor limbs;  ///< int64, as ExactSum::fromLimbs() takes them; added to
};
void launchSumOfSquares(const SquaresOperands& x, CUstream_st* stream);

/// Two kernels: the second adds up the losses of rows.
struct RouterGradientOperands {
  parallel::RouterGradientArgs args;
  parallel::Tensor losses;  ///< float64 [2 * rows + 2]: what rows have, and behind that the sums
};
void launchRouterGradient(const RouterGradientOperands& x, CUstream_st* stream);

/// A kernel that has nothing to do, in one block.
void launchNothing(CUstream_st* stream);

}  // namespace tutti::bench
