#include "parallel/data/documents.h"

#include <algorithm>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

/// Of all of its windows, labels that do not count: all but the first token are labels.
int64_t uncountedOf(const Document& document) {
  const int64_t labels = document.end - document.begin - 1;
  return std::clamp<int64_t>(document.prompt - 1, 0, labels);
}

}  // namespace

std::vector<Document> linesOf(const std::vector<uint8_t>& text, std::optional<uint8_t> promptEnd) {
  std::vector<Document> lines;
  for (auto begin = text.begin(); begin != text.end();) {
    const auto newline = std::find(begin, text.end(), uint8_t{'\n'});
    const auto end = newline == text.end() ? newline : newline + 1;
    const auto mark = promptEnd ? std::find(begin, end, *promptEnd) : end;
    lines.push_back({begin - text.begin(), end - text.begin(), mark == end ? 0 : mark + 1 - begin});
    begin = end;
  }
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

Window Documents::window(int64_t number) const {
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
