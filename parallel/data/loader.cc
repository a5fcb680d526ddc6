#include "parallel/data/loader.h"

#include <algorithm>

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

/// Tokens [start, start + context] as inputs and, shifted by one, labels. What lies beyond the end
/// of the text becomes input 0 and label -1.
void copyWindow(const TokenView& tokens, int64_t start, int64_t context, int32_t* ids,
                int32_t* labels) {
  const int64_t inputs = std::clamp<int64_t>(tokens.size() - start, 0, context);
  const int64_t next = std::clamp<int64_t>(tokens.size() - start - 1, 0, context);
  tokens.read(start, inputs, ids);
  std::fill(ids + inputs, ids + context, 0);
  tokens.read(start + 1, next, labels);
  std::fill(labels + next, labels + context, -1);
}

Batch view(std::vector<int32_t>& ids, std::vector<int32_t>& labels, int64_t rows, int64_t context) {
  return {Tensor(ids.data(), DType::Int32, {rows, context}),
          Tensor(labels.data(), DType::Int32, {rows * context})};
}

}  // namespace

Loader::Loader(const TokenView& tokens, int64_t context, int64_t globalBatch, uint64_t seed)
    : tokens_(tokens), context_(context), globalBatch_(globalBatch), seed_(seed), windows_(0) {
  require(context > 0 && globalBatch > 0, "a batch of ", globalBatch, " sequences of ", context,
          " tokens");
  Shape({globalBatch, context}).count();  // so that a step's tokens can be counted
  const int64_t size = tokens.size();
  require(size > context, "a text of ", size, " tokens has no window of ", context, " and a label");
  // Every window starts at offset + i * context with offset below context, and ends inside.
  windows_ = std::max<int64_t>(1, (size - context) / context);
}

int64_t Loader::sampleStart(int64_t number) const {
  const int64_t epoch = number / windows_;
  const std::string name = "epoch " + std::to_string(epoch);
  const uint64_t window = Permutation(
      seed_, name, static_cast<uint64_t>(windows_))[static_cast<uint64_t>(number % windows_)];
  const int64_t slack = tokens_.size() - windows_ * context_;
  const uint64_t offset =
      Random(seed_, "offset")
          .below(static_cast<uint64_t>(epoch), static_cast<uint64_t>(std::min(context_, slack)));
  return static_cast<int64_t>(window) * context_ + static_cast<int64_t>(offset);
}

Batch Loader::next(int64_t step, MicroBatch part) {
  const int64_t begin = part.index * globalBatch_ / part.count;
  const int64_t rows = (part.index + 1) * globalBatch_ / part.count - begin;
  ids_.resize(static_cast<size_t>(rows * context_));
  labels_.resize(ids_.size());
  for (int64_t i = 0; i < rows; ++i)
    copyWindow(tokens_, sampleStart(step * globalBatch_ + begin + i), context_,
               ids_.data() + i * context_, labels_.data() + i * context_);
  return view(ids_, labels_, rows, context_);
}

int64_t Windows::count() const {
  return countedTokens() / context_ + (countedTokens() % context_ > 0);
}

Batch Windows::read(int64_t begin, int64_t sequences) {
  const int64_t rows = std::min(sequences, count() - begin);
  ids_.resize(static_cast<size_t>(rows * context_));
  labels_.resize(ids_.size());
  for (int64_t i = 0; i < rows; ++i)
    copyWindow(tokens_, (begin + i) * context_, context_, ids_.data() + i * context_,
               labels_.data() + i * context_);
  return view(ids_, labels_, rows, context_);
}

}  // namespace tutti::parallel
