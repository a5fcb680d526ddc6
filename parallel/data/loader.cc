#include "parallel/data/loader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

/// Tokens [start, start + context] as inputs and, shifted by one, labels. What lies beyond the end
/// of the text becomes input 0 and label -1.
void copyWindow(const std::vector<uint8_t>& tokens, int64_t start, int64_t context, int32_t* ids,
                int32_t* labels) {
  const int64_t size = static_cast<int64_t>(tokens.size());
  for (int64_t t = 0; t < context; ++t) {
    const int64_t at = start + t;
    ids[t] = at < size ? tokens[static_cast<size_t>(at)] : 0;
    labels[t] = at + 1 < size ? tokens[static_cast<size_t>(at) + 1] : -1;
  }
}

Batch view(std::vector<int32_t>& ids, std::vector<int32_t>& labels, int64_t rows, int64_t context) {
  return {Tensor(ids.data(), DType::Int32, {rows, context}),
          Tensor(labels.data(), DType::Int32, {rows * context})};
}

}  // namespace

TokenData readBytes(const std::string& path, int64_t context) {
  std::error_code error;
  require(!std::filesystem::is_directory(path, error), "the text ", path, " is a directory");
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "the text ", path, " cannot be opened: ", std::strerror(errno));
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  require(!file.bad(), "the text ", path, " cannot be read: ", std::strerror(errno));
  require(!bytes.empty(), "the text ", path, " is empty");
  const auto split = bytes.end() - static_cast<int64_t>(bytes.size()) / 20;
  TokenData data{{bytes.begin(), split}, {split, bytes.end()}};
  require(static_cast<int64_t>(data.train.size()) > context && data.validation.size() > 1,
          "the text ", path, " has ", bytes.size(), " bytes, too few for a context of ", context,
          ": at least ", std::max<int64_t>(40, context * 20 / 19 + 2), " are needed");
  return data;
}

Loader::Loader(const std::vector<uint8_t>& tokens, int64_t context, int64_t globalBatch,
               uint64_t seed)
    : tokens_(tokens), context_(context), globalBatch_(globalBatch), seed_(seed), windows_(0) {
  require(context > 0 && globalBatch > 0, "a batch of ", globalBatch, " sequences of ", context,
          " tokens");
  const int64_t size = static_cast<int64_t>(tokens.size());
  require(size > context, "a text of ", size, " tokens has no window of ", context, " and a label");
  // Every window starts at offset + i * context with offset below context, and ends inside.
  windows_ = std::max<int64_t>(1, (size - context) / context);
}

int64_t Loader::sampleStart(int64_t number) const {
  const int64_t epoch = number / windows_;
  const std::string name = "epoch " + std::to_string(epoch);
  const uint64_t window = Permutation(
      seed_, name, static_cast<uint64_t>(windows_))[static_cast<uint64_t>(number % windows_)];
  const int64_t slack = static_cast<int64_t>(tokens_.size()) - windows_ * context_;
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

int64_t Windows::count() const { return (countedTokens() + context_ - 1) / context_; }

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
