#include "parallel/data/loader.h"

#include <algorithm>
#include <utility>

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

/// The tokens of a window as inputs and, shifted by one, labels. Padding is input 0 and label -1,
/// as of labels that do not count.
void copyWindow(const TokenView& tokens, const TokenWindow& window, int64_t context, int32_t* ids,
                int32_t* labels) {
  tokens.read(window.start, window.length, ids);
  std::fill(ids + window.length, ids + context, 0);
  std::fill(labels, labels + window.uncounted, -1);
  tokens.read(window.start + 1 + window.uncounted, window.counted(), labels + window.uncounted);
  std::fill(labels + window.length, labels + context, -1);
}

void requireBatch(int64_t sequences, int64_t context) {
  require(context > 0 && sequences > 0, "a batch of ", sequences, " sequences of ", context,
          " tokens");
  Shape({sequences, context}).count();  // so that a step's tokens can be counted
}

void requireWithin(const Documents& documents, const TokenView& tokens) {
  require(documents.end() <= tokens.size(), "documents up to token ", documents.end(),
          " of a text of ", tokens.size());
}

Batch view(std::vector<int32_t>& ids, std::vector<int32_t>& labels, int64_t rows, int64_t context) {
  return {Tensor(ids.data(), DType::Int32, {rows, context}),
          Tensor(labels.data(), DType::Int32, {rows * context})};
}

}  // namespace

Loader::Loader(const TokenView& tokens, int64_t context, int64_t globalBatch, uint64_t seed)
    : tokens_(tokens), context_(context), globalBatch_(globalBatch), seed_(seed), windows_(0) {
  requireBatch(globalBatch, context);
  const int64_t size = tokens.size();
  require(size > context, "a text of ", size, " tokens has no window of ", context, " and a label");
  // Every window starts at offset + i * context with offset below context, and ends inside.
  windows_ = std::max<int64_t>(1, (size - context) / context);
}

Loader::Loader(const TokenView& tokens, Documents documents, int64_t globalBatch, uint64_t seed)
    : tokens_(tokens),
      documents_(std::move(documents)),
      context_(documents_->context()),
      globalBatch_(globalBatch),
      seed_(seed),
      windows_(documents_->windows()) {
  requireBatch(globalBatch, context_);
  requireWithin(*documents_, tokens);
  require(windows_ > 0, "documents of fewer than two tokens have nothing to learn");
}

TokenWindow Loader::sample(int64_t number) const {
  const int64_t epoch = number / windows_;
  const Permutation order(seed_, message("epoch ", epoch), static_cast<uint64_t>(windows_));
  const auto window = static_cast<int64_t>(order[static_cast<uint64_t>(number % windows_)]);
  return documents_ ? documents_->window(window) : fullWindow(window, epoch);
}

TokenWindow Loader::fullWindow(int64_t window, int64_t epoch) const {
  const int64_t slack = tokens_.size() - windows_ * context_;
  const uint64_t offset =
      Random(seed_, "offset")
          .below(static_cast<uint64_t>(epoch), static_cast<uint64_t>(std::min(context_, slack)));
  return {.start = window * context_ + static_cast<int64_t>(offset), .length = context_};
}

int64_t Loader::countedTokens(int64_t step) const {
  if (!documents_) return globalBatch_ * context_;
  int64_t counted = 0;
  for (int64_t i = 0; i < globalBatch_; ++i) counted += sample(step * globalBatch_ + i).counted();
  return counted;
}

Batch Loader::next(int64_t step, MicroBatch part) {
  const int64_t begin = part.index * globalBatch_ / part.count;
  const int64_t rows = (part.index + 1) * globalBatch_ / part.count - begin;
  ids_.resize(static_cast<size_t>(rows * context_));
  labels_.resize(ids_.size());
  for (int64_t i = 0; i < rows; ++i)
    copyWindow(tokens_, sample(step * globalBatch_ + begin + i), context_,
               ids_.data() + i * context_, labels_.data() + i * context_);
  return view(ids_, labels_, rows, context_);
}

Windows::Windows(const TokenView& tokens, int64_t context)
    : Windows(tokens, Documents({{0, tokens.size()}}, context)) {}

Windows::Windows(const TokenView& tokens, Documents documents)
    : tokens_(tokens), documents_(std::move(documents)) {
  requireWithin(documents_, tokens);
}

Batch Windows::read(int64_t begin, int64_t sequences) {
  const int64_t rows = std::min(sequences, count() - begin), context = documents_.context();
  ids_.resize(static_cast<size_t>(rows * context));
  labels_.resize(ids_.size());
  for (int64_t i = 0; i < rows; ++i)
    copyWindow(tokens_, documents_.window(begin + i), context, ids_.data() + i * context,
               labels_.data() + i * context);
  return view(ids_, labels_, rows, context);
}

}  // namespace tutti::parallel
