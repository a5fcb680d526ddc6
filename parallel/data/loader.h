#pragma once

// Training data: a loader that deals out windows of a text's tokens, or of documents in it. The
// sample with a given number is a pure function of (seed, number), never of the number of ranks or
// of what was read before, so a run can be split over ranks, or resumed, and see the same samples.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/data/documents.h"
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
/// of its own.
class Loader {
 public:
  /// Windows that are full, wherever they begin; each epoch takes them from an offset of its own,
  /// and all labels count.
  Loader(const TokenView& tokens, int64_t context, int64_t globalBatch, uint64_t seed);
  /// Those of documents. Throws InvalidArgument when these have none, or lie outside the text.
  Loader(const TokenView& tokens, Documents documents, int64_t globalBatch, uint64_t seed);

  /// The sequences [index * B / count, (index + 1) * B / count) of step `step` (from 0).
  Batch next(int64_t step, MicroBatch part);
  /// Labels of the whole batch of that step that count.
  int64_t countedTokens(int64_t step) const;
  int64_t globalBatch() const { return globalBatch_; }
  /// Windows of one epoch. A text with fewer than a batch repeats some within one step.
  int64_t windows() const { return windows_; }
  /// Global sample `number`, counted through all steps.
  TokenWindow sample(int64_t number) const;

 private:
  TokenWindow fullWindow(int64_t window, int64_t epoch) const;

  const TokenView tokens_;
  std::optional<Documents> documents_;
  int64_t context_, globalBatch_;
  uint64_t seed_;
  int64_t windows_;  ///< in one epoch
  std::vector<int32_t> ids_, labels_;
};

/// All windows of a text, one after the other, for validation.
class Windows {
 public:
  /// Of the whole text as one document.
  Windows(const TokenView& tokens, int64_t context);
  /// Throws InvalidArgument when the documents lie outside the text.
  Windows(const TokenView& tokens, Documents documents);

  int64_t count() const { return documents_.windows(); }
  /// Labels that count.
  int64_t countedTokens() const { return documents_.countedTokens(); }
  /// Windows [begin, begin + sequences), fewer at the end.
  Batch read(int64_t begin, int64_t sequences);

 private:
  const TokenView tokens_;
  const Documents documents_;
  std::vector<int32_t> ids_, labels_;
};

}  // namespace tutti::parallel
