#pragma once

// The loss of a language model, also where its vocabulary is cut over ranks.

#include "parallel/nn/module.h"

namespace tutti::parallel {

struct LossArgs {
  Tensor logits;  ///< [batch, own positions, vocabulary], cut as its layout says, with gaps between
                  ///< rows or without; replaced by the gradient when `gradient` is true
  Tensor labels;  ///< int32 [batch * context] of the host, of all positions; -1: this token does
                  ///< not count
  int64_t vocabulary = 0;  ///< of the whole model
  double scale = 1;        ///< of the gradient: one over the global number of counted tokens
  bool gradient = true;
};

/// The sum of the cross-entropies, in nats and not scaled, of the counted tokens that this rank
/// has: the same bits on all ranks of tensor parallelism. These exchange three numbers for each
/// token, in one AllGather. Throws InvalidArgument when a label is outside the vocabulary, and what
/// the collective throws.
double crossEntropy(ParallelContext& context, const LossArgs& args);

}  // namespace tutti::parallel
