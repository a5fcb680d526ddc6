#pragma once

// What kernels refuse, whatever the device: operands whose shapes do not go together, that are not
// of one type, or not contiguous. Each throws InvalidArgument naming the operation and the
// operands. A device that computes bfloat16 in float32 asks about the operands that it made of
// them, so here a call has one type.

#include "parallel/kernels/kernels.h"

namespace tutti::parallel {

/// Of the last dimension; 1 of a scalar.
int64_t width(const Tensor& x);
/// The product of the others.
int64_t rows(const Tensor& x);
/// From one row to the next, of what requireOperands has let through as rows that are evenly apart.
int64_t rowStride(const Tensor& x);

/// Of `queries` and `keys`, the pairs of which the query sees the key; `ahead` is the position of
/// the first query, less that of the first key.
double seenPairs(int64_t queries, int64_t keys, int64_t ahead, int64_t window = 0);

/// Of the dimension over which a gemm sums, and of its columns of sums.
int64_t summed(const GemmArgs& args);
int64_t productColumns(const GemmArgs& args);
/// How many products there are, and the operands of one of them.
int64_t batchOf(const GemmArgs& args);
GemmArgs productOf(const GemmArgs& args, int64_t index);
/// Of a product's `inner`, whose two halves are side by side.
Tensor leftHalf(const Tensor& inner);
Tensor rightHalf(const Tensor& inner);

/// Columns must be adjacent, rows need not be.
void requireOperands(const GemmArgs& args);
void requireOperands(const LayerNormArgs& args);
void requireOperands(const LayerNormBackwardArgs& args);
void requireOperands(const LayerNormWeightArgs& args);
void requireOperands(const RmsNormArgs& args);
void requireOperands(const RmsNormBackwardArgs& args);
void requireOperands(const RmsNormWeightArgs& args);
void requireOperands(const RotaryArgs& args);
void requireOperands(const AttentionArgs& args);
void requireOperands(const AttentionBackwardArgs& args);
void requireOperands(const AttentionBlockArgs& args);
void requireOperands(const AttentionBlockBackwardArgs& args);
void requireOperands(const AttentionMergeArgs& args);
void requireOperands(const EmbeddingArgs& args);
void requireOperands(const EmbeddingWeightArgs& args);
void requireOperands(const LogitStatisticsArgs& args);
void requireOperands(const CrossEntropyArgs& args);
void requireOperands(const RouteArgs& args);
void requireOperands(const CountChoicesArgs& args);
void requireOperands(const PlaceTokensArgs& args);
void requireOperands(const RouterGradientArgs& args);
void requireOperands(const SpreadRowsArgs& args);
void requireOperands(const CombineRowsArgs& args);
void requireOperands(const RowDotsArgs& args);
void requireOperands(const AdamWTensors& tensors);
void requireOperands(const SgdTensors& tensors);

/// Of a norm on a device that leaves sums of so many slices: none, or of as many.
void requireSlices(const char* operation, const Tensor& sums, int64_t slices);
void requireContiguous(const char* operation, const Tensor& x);
/// Of one shape, with rows of adjacent elements. Their types may differ.
void requireCopy(const Tensor& from, const Tensor& to);
void requireAddBias(const Tensor& bias, const Tensor& y);
void requireBiasGradient(const Tensor& dy, const Tensor& db);
void requireAdd(const Tensor& from, const Tensor& to);
void requireGelu(const Tensor& x, const Tensor& y);
void requireGeluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx);
void requireSwiGlu(const Tensor& x, const Tensor& y);
void requireSwiGluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx);

}  // namespace tutti::parallel
