#include "parallel/samples/ring_attention/attention_layer.h"

#include <algorithm>

#include "parallel/kernels/host/attention_scratch.h"

namespace tutti::parallel {

namespace {

/// Of so many elements in an arena, which begins each tensor on a cache line.
size_t bytesOf(int64_t elements) {
  return (static_cast<size_t>(elements) * sizeof(double) + 63) / 64 * 64;
}

/// Scores of queries and keys, and of their gradients: on the host a block of queries at a time; a
/// GPU's kernels have memory of their own.
size_t scoresOf(const AttentionLayer& l, int64_t queries, int64_t keys) {
  if (l.device != DeviceKind::Host) return 0;
  const Shape block = host::backwardScratch(queries, keys, l.headWidth());
  return 2 * bytesOf(block.count()) + bytesOf(block[1]);
}

/// What all ways save of a rank's own positions after forward: the result; and what backward adds:
/// the gradients of what attention gives, of queries, keys and values, and of the input.
size_t resultOf(const AttentionLayer& l) { return bytesOf(l.own() * l.width); }
size_t gradientsOf(const AttentionLayer& l) {
  return 2 * bytesOf(l.own() * l.width) + bytesOf(l.own() * l.columns());
}

/// Of one rank, or of a ring: each computes its own positions, and a ring has two pairs of keys and
/// values and in backward three of their gradients under way.
LayerCost predictRing(const AttentionLayer& l) {
  LayerCost cost{.saved = bytesOf(l.own() * l.columns()) + bytesOf(l.own() * l.width) +
                          bytesOf(l.own() * l.heads) + resultOf(l)};
  const bool alone = l.ranks == 1;
  const int64_t pair = l.own() * 2 * l.kvHeads * l.headWidth();
  const int64_t piece = alone ? l.length : l.own() / 2;
  const size_t travelling = alone ? 0 : 5 * bytesOf(pair) + bytesOf(l.own() * l.width);
  cost.peak = cost.saved + gradientsOf(l) + travelling + scoresOf(l, piece, piece);
  const auto ranks = static_cast<size_t>(l.ranks);
  const size_t sent = static_cast<size_t>(pair) * sizeof(double);
  cost.forward = alone ? 0 : (ranks - 1) * sent;
  cost.backward = alone ? 0 : (2 * ranks - 1) * sent;
  return cost;
}

/// Some heads of all positions; an exchange takes a buffer for each way.
LayerCost predictHeads(const AttentionLayer& l) {
  const int64_t heads = l.heads / l.ranks, kvHeads = std::max<int64_t>(l.kvHeads / l.ranks, 1);
  const int64_t inputs = l.length * (heads + 2 * kvHeads) * l.headWidth();
  const int64_t results = l.length * heads * l.headWidth();
  LayerCost cost{.saved = bytesOf(inputs) + bytesOf(results) + bytesOf(l.length * heads) +
                          bytesOf(l.own() * l.width) + resultOf(l)};
  const size_t exchanged = bytesOf(results) + bytesOf(inputs) +
                           std::max(scoresOf(l, l.length, l.length), 2 * bytesOf(inputs));
  cost.peak = cost.saved + gradientsOf(l) + std::max(exchanged, 3 * bytesOf(inputs));
  const size_t others = static_cast<size_t>(inputs + results) / static_cast<size_t>(l.ranks) *
                        static_cast<size_t>(l.ranks - 1);
  cost.forward = cost.backward = others * sizeof(double);
  return cost;
}

}  // namespace

LayerCost predict(const AttentionLayer& layer) {
  const bool exchanges = layer.attention == ContextAttention::Heads && layer.ranks > 1;
  return exchanges ? predictHeads(layer) : predictRing(layer);
}

}  // namespace tutti::parallel
