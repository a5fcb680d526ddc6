#include "parallel/data/documents.h"

#include <algorithm>
#include <array>
#include <span>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

/// Of all of its windows, labels that do not count: all but the first token are labels.
int64_t uncountedOf(const Document& document) {
  const int64_t labels = document.end - document.begin - 1;
  return std::clamp<int64_t>(document.prompt - 1, 0, labels);
}

}  // namespace

std::vector<Document> linesOf(const TokenView& text, std::optional<uint8_t> promptEnd) {
  std::vector<Document> lines;
  std::array<int32_t, 4096> ids;
  Document line;
  for (int64_t at = 0; at < text.size();) {
    const int64_t count = std::min(text.size() - at, std::ssize(ids));
    text.read(at, count, ids.data());
    for (const int32_t id : std::span(ids).first(static_cast<size_t>(count))) {
      line.end = ++at;
      if (line.prompt == 0 && promptEnd && id == *promptEnd) line.prompt = line.end - line.begin;
      if (id != '\n') continue;
      lines.push_back(line);
      line = {.begin = at, .end = at};
    }
  }
  if (line.end > line.begin) lines.push_back(line);
  return lines;
}

Documents::Documents(const std::vector<Document>& documents, int64_t context)
    : context_(context), firstWindows_{0} {
  require(context > 0, "documents are cut into windows of ", context, " tokens");
  for (const Document& document : documents) {
    require(document.begin >= end_ && document.end >= document.begin && document.prompt >= 0,
            "a document of tokens ", document.begin, " to ", document.end, " with a prompt of ",
            document.prompt, " comes after one that ends at ", end_);
    end_ = document.end;
    const int64_t labels = document.end - document.begin - 1;
    if (labels < 1) continue;
    documents_.push_back(document);
    firstWindows_.push_back(windows() + labels / context + (labels % context > 0));
    counted_ += labels - uncountedOf(document);
  }
}

TokenWindow Documents::window(int64_t number) const {
  ensure(number >= 0 && number < windows(), "there is no window ", number, " of ", windows());
  const auto next = std::upper_bound(firstWindows_.begin(), firstWindows_.end(), number);
  const auto at = static_cast<size_t>(next - firstWindows_.begin()) - 1;
  const Document& document = documents_[at];
  const int64_t before = (number - firstWindows_[at]) * context_;
  const int64_t length = std::min(context_, document.end - document.begin - 1 - before);
  return {.start = document.begin + before,
          .length = length,
          .uncounted = std::clamp<int64_t>(uncountedOf(document) - before, 0, length)};
}

}  // namespace tutti::parallel
