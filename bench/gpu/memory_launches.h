#pragma once

// Kernels that memory bounds and that Kernels has as parts of calls alone, enqueued by themselves.
// Operands are on the current GPU, contiguous.

#include "parallel/tensor/tensor.h"

struct CUstream_st;

namespace tutti::bench {

/// What attention's backward begins with: of each row of each head the products of dOut and out.
struct AttentionDotsOperands {
  parallel::Tensor dOut, out;  ///< [sequences, context, width]
  parallel::Tensor dots;       ///< float32 [sequences, heads, context]
};
/// Throws Cuda.
void launchAttentionDots(const AttentionDotsOperands& x, CUstream_st* stream);

/// What products end with whose depth is split: c += the sum of what splits gave.
struct SplitsOperands {
  parallel::Tensor partial;  ///< float32 [products, splits, rows, columns], of a multiple of 4
  parallel::Tensor c;        ///< [products, rows, columns]
};
/// Throws Cuda.
void launchSumOfSplits(const SplitsOperands& x, CUstream_st* stream);

}  // namespace tutti::bench
