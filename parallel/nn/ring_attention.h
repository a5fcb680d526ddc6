#pragma once

// Ring attention: keys and values go round the ranks of context parallelism while each computes
// with those that it has. With four ranks, K_s the keys and values of rank s:
//
//   step      0     1     2     3
//   rank 0   K_0   K_3   K_2   K_1        each step: send what is here to the next rank, receive
//   rank 1   K_1   K_0   K_3   K_2        what comes from the one before, and compute meanwhile
//   rank 2   K_2   K_1   K_0   K_3
//   rank 3   K_3   K_2   K_1   K_0
//
// What a rank's queries get of each K_s is merged by the logarithms of the sums. Two pieces of a
// sequence are the same or apart (sharding/sequence_cut.h), so of the four pairs of a rank's pieces
// of queries and of keys those that causality hides are not computed.
//
// Backward goes round once more, and with K_s travels the sum of its gradients so far, a step
// behind: what a rank adds is sent when it is computed, and after the last step the sum is at home.
//
// Forward sends n - 1 times what the ranks' keys and values are, and backward as often, and n times
// the gradients, which travel as the type that they are added up in (statisticsType). Source: Liu
// et al., "Ring Attention with Blockwise Transformers for Near-Infinite Context"; the merging is
// that of "FlashAttention" (Dao et al.); the balance is asked for by Brandon et al., "Striped
// Attention".

#include "parallel/nn/module.h"

namespace tutti::parallel {

/// Kernels::attention of sequences of `length`, of which each rank has its positions: all operands
/// are its own. Collective over the ranks of context parallelism; throws what the communicator
/// throws.
void ringAttention(ParallelContext& context, const AttentionArgs& own, int64_t length);
void ringAttentionBackward(ParallelContext& context, const AttentionBackwardArgs& own,
                           int64_t length);

}  // namespace tutti::parallel
