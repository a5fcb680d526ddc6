#include "parallel/data/loader.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

/// The tokens of a window as inputs and, shifted by one, labels. Padding is input 0 and label -1,
/// as of labels that do not count.
void copyWindow(const std::vector<uint8_t>& tokens, const Window& window, int64_t context,
                int32_t* ids, int32_t* labels) {
  for (int64_t t = 0; t < context; ++t) {
    const auto at = static_cast<size_t>(window.start + t);
    const bool within = t < window.length;
    ids[t] = within ? tokens[at] : 0;
    labels[t] = within && t >= window.uncounted ? tokens[at + 1] : -1;
  }
}

void requireBatch(int64_t sequences, int64_t context) {
  require(context > 0 && sequences > 0, "a batch of ", sequences, " sequences of ", context,
          " tokens");
  Shape({sequences, context}).count();  // so that a step's tokens can be counted
}

void requireWithin(const Documents& documents, const std::vector<uint8_t>& tokens) {
  require(documents.end() <= static_cast<int64_t>(tokens.size()), "documents up to token ",
          documents.end(), " of a text of ", tokens.size());
}

Batch view(std::vector<int32_t>& ids, std::vector<int32_t>& labels, int64_t rows, int64_t context) {
  return {Tensor(ids.data(), DType::Int32, {rows, context}),
          Tensor(labels.data(), DType::Int32, {rows * context})};
}

const char* kindOf(std::filesystem::file_type type) {
  switch (type) {
    case std::filesystem::file_type::directory: return "a directory";
    case std::filesystem::file_type::character: return "a device";
    case std::filesystem::file_type::block: return "a device";
    case std::filesystem::file_type::fifo: return "a pipe";
    case std::filesystem::file_type::socket: return "a socket";
    default: return "no file";
  }
}

/// A pipe or a device would give each rank something else, or block, or never end.
void requireRegular(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  require(!error, "the text ", path, " cannot be opened: ", error.message());
  require(type == std::filesystem::file_type::regular, "the text ", path, " is ", kindOf(type),
          ": every rank reads the text to its end, so it must be a regular file");
}

std::vector<uint8_t> readRegularFile(const std::string& path) {
  requireRegular(path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  require(file != nullptr, "the text ", path, " cannot be opened: ", std::strerror(errno));
  std::vector<uint8_t> bytes, part(size_t{1} << 20);
  while (const size_t n = std::fread(part.data(), 1, part.size(), file.get()))
    bytes.insert(bytes.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n));
  require(!std::ferror(file.get()), "the text ", path, " cannot be read: ", std::strerror(errno));
  return bytes;
}

}  // namespace

TokenData readBytes(const std::string& path, int64_t context) {
  const std::vector<uint8_t> bytes = readRegularFile(path);
  require(!bytes.empty(), "the text ", path, " is empty");
  const auto tokens = static_cast<uint64_t>(context);  // 20/19 of the largest context fit in it
  const auto split = bytes.end() - static_cast<int64_t>(bytes.size()) / 20;
  TokenData data{{bytes.begin(), split}, {split, bytes.end()}};
  require(static_cast<int64_t>(data.train.size()) > context && data.validation.size() > 1,
          "the text ", path, " has ", bytes.size(), " bytes, too few for a context of ", context,
          ": at least ", std::max<uint64_t>(40, tokens + tokens / 19 + 2), " are needed");
  return data;
}

Loader::Loader(const std::vector<uint8_t>& tokens, int64_t context, int64_t globalBatch,
               uint64_t seed)
    : tokens_(tokens), context_(context), globalBatch_(globalBatch), seed_(seed), windows_(0) {
  requireBatch(globalBatch, context);
  const int64_t size = static_cast<int64_t>(tokens.size());
  require(size > context, "a text of ", size, " tokens has no window of ", context, " and a label");
  // Every window starts at offset + i * context with offset below context, and ends inside.
  windows_ = std::max<int64_t>(1, (size - context) / context);
}

Loader::Loader(const std::vector<uint8_t>& tokens, Documents documents, int64_t globalBatch,
               uint64_t seed)
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

Window Loader::sample(int64_t number) const {
  const int64_t epoch = number / windows_;
  const Permutation order(seed_, message("epoch ", epoch), static_cast<uint64_t>(windows_));
  const auto window = static_cast<int64_t>(order[static_cast<uint64_t>(number % windows_)]);
  return documents_ ? documents_->window(window) : fullWindow(window, epoch);
}

Window Loader::fullWindow(int64_t window, int64_t epoch) const {
  const int64_t slack = static_cast<int64_t>(tokens_.size()) - windows_ * context_;
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

Windows::Windows(const std::vector<uint8_t>& tokens, int64_t context)
    : Windows(tokens, Documents({{0, static_cast<int64_t>(tokens.size())}}, context)) {}

Windows::Windows(const std::vector<uint8_t>& tokens, Documents documents)
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
