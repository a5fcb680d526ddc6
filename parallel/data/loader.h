#pragma once

// Training data: a loader that deals out windows of a text's tokens. The sample with a given number
// is a pure function of (seed, number), never of the number of ranks or of what was read before, so
// a run can be split over ranks, or resumed, and see the same samples.

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/data/token_view.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

/// A micro-batch: views of the loader's memory, valid until its next call.
struct Batch {
  Tensor tokenIds;  ///< int32 [sequences, context]
  Tensor labels;    ///< int32 [sequences * context]; -1 does not count
};

/// A part of the global batch: micro-batch `index` of `count`.
struct MicroBatch {
  int index = 0, count = 1;
};

/// Samples without replacement: each epoch goes once through all windows of the text, in an order
/// and from an offset of its own.
class Loader {
 public:
  Loader(const TokenView& tokens, int64_t context, int64_t globalBatch, uint64_t seed);

  /// The sequences [index * B / count, (index + 1) * B / count) of step `step` (from 0).
  Batch next(int64_t step, MicroBatch part);
  /// All labels count.
  int64_t countedTokens() const { return globalBatch_ * context_; }
  int64_t globalBatch() const { return globalBatch_; }
  /// Windows of one epoch. A text with fewer than a batch repeats some within one step.
  int64_t windows() const { return windows_; }
  /// First token of global sample `number`.
  int64_t sampleStart(int64_t number) const;

 private:
  const TokenView tokens_;
  int64_t context_, globalBatch_;
  uint64_t seed_;
  int64_t windows_;  ///< in one epoch
  std::vector<int32_t> ids_, labels_;
};

/// Consecutive windows that cover a text once, for validation. The last may be short: its missing
/// labels are -1.
class Windows {
 public:
  Windows(const TokenView& tokens, int64_t context) : tokens_(tokens), context_(context) {}
  int64_t count() const;
  int64_t countedTokens() const { return tokens_.size() - 1; }
  /// Windows [begin, begin + sequences), fewer at the end.
  Batch read(int64_t begin, int64_t sequences);

 private:
  const TokenView tokens_;
  int64_t context_;
  std::vector<int32_t> ids_, labels_;
};

}  // namespace tutti::parallel
