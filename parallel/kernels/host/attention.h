#pragma once

// Causal attention on the host. Queries are taken in blocks of rows; a block's scores against all
// keys that it may see are one small GEMM in scratch memory, so nothing of size context^2 is ever
// kept, and about half of the square is never computed.
//
//   forward    S = Q K^T; P = softmax(S / sqrt(d)); O = P V            per block and head
//   backward   S^T again; P = exp(S / sqrt(d) - lse); dV += P^T dO; dP = dO V^T;
//              dS = P (dP - rowsum(dO O)) / sqrt(d); dQ = dS K; dK += dS^T Q
//
// The recomputation is that of "FlashAttention" (Dao et al.), without its tiling of the keys. A
// block of attention is the same with keys that begin elsewhere than the queries, and with
// gradients that are added to what is there. Where queries do not see all keys before them
// (AttentionReach), a block's keys begin with the first that its first query sees.

#include "parallel/kernels/host/elementwise.h"
#include "parallel/kernels/kernels.h"

namespace tutti::parallel::host {

template <class T>
void attention(const AttentionArgs& args, const ElementwiseKernels<T>& elementwise, Arena& scratch);
template <class T>
void attentionBackward(const AttentionBackwardArgs& args, const ElementwiseKernels<T>& elementwise,
                       Arena& scratch);
template <class T>
void attentionBlock(const AttentionBlockArgs& args, const ElementwiseKernels<T>& elementwise,
                    Arena& scratch);
template <class T>
void attentionBlockBackward(const AttentionBlockBackwardArgs& args,
                            const ElementwiseKernels<T>& elementwise, Arena& scratch);
template <class T>
void attentionMerge(const AttentionMergeArgs& args, const ElementwiseKernels<T>& elementwise);

}  // namespace tutti::parallel::host
