#pragma once

// What a model says about its experts, whatever kind of model it is.

#include <cstdint>

namespace tutti::parallel {

/// Of blocks whose MLP is a mixture of experts (nn/experts.h, which has the definitions).
struct ExpertOptions {
  int64_t count = 0;          ///< of a block; 0: all blocks have one MLP
  int64_t perToken = 2;       ///< that each token goes to
  double capacityFactor = 0;  ///< rows of an expert over an even share; 0: none is dropped
  double auxLoss = 0.01;      ///< how much the load-balancing loss counts
  double zLoss = 0;           ///< how much the square of the router's log-sum-exp counts
  int64_t every = 1;          ///< each n-th block has experts: of two, the second
  bool normalized = true;     ///< the weights of a token's experts add up to 1

  /// Whether block `i`, from 0, has experts.
  bool inBlock(int64_t i) const { return count > 0 && (i + 1) % every == 0; }
  /// Of so many blocks those that have experts.
  int64_t blocksOf(int64_t layers) const { return count > 0 ? layers / every : 0; }
  bool operator==(const ExpertOptions&) const = default;
};

/// Throws InvalidArgument, naming the option, when there can be no such experts in so many blocks.
void check(const ExpertOptions& options, int64_t layers);

}  // namespace tutti::parallel
