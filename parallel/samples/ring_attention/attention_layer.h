#pragma once

// What one layer of attention over a long sequence takes of each rank of context parallelism: by
// formulas, for ring_attention to compare with what was counted. In float64, with one sequence.

#include <cstddef>
#include <cstdint>

#include "parallel/nn/context_parallel.h"

namespace tutti::parallel {

struct AttentionLayer {
  int64_t length = 0;  ///< a multiple of twice the ranks, so that all of them have as much
  int64_t width = 0, heads = 0, kvHeads = 0;
  int ranks = 1;
  ContextAttention attention = ContextAttention::Ring;
  DeviceKind device = DeviceKind::Host;  ///< of the ranks, for what attention takes for itself

  int64_t headWidth() const { return width / heads; }
  int64_t own() const { return length / ranks; }  ///< positions of a rank
  /// Columns of queries, keys and values, of a rank's positions.
  int64_t columns() const { return (heads + 2 * kvHeads) * headWidth(); }
};

/// Bytes of a rank.
struct LayerCost {
  size_t saved = 0;     ///< activations that forward saves for backward
  size_t peak = 0;      ///< of these, backward's and what calls take for themselves, at most
  size_t forward = 0;   ///< sent to other ranks
  size_t backward = 0;  ///< sent to other ranks

  bool operator==(const LayerCost&) const = default;
};

LayerCost predict(const AttentionLayer& layer);

}  // namespace tutti::parallel
