#pragma once

// A text as documents, each learned by itself: no sample goes on from one into the next. A document
// is cut into windows from its beginning, and the last one is padded:
//
//   document   |p r o m p t a n s w e r|        context 8, the first 6 tokens are a prompt
//   window 0   |p r o m p t a n|                labels - - - - - a n s
//   window 1   |s w e .........|                labels w e r - - - - -
//
// A label is the next token of the same document. It counts unless it is of the prompt, which is
// seen and not learned. Those that do not count are -1; a window may have none that do.

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/data/token_view.h"

namespace tutti::parallel {

/// Tokens [begin, end) of a text, of which the first `prompt` are not to be learned.
struct Document {
  int64_t begin = 0, end = 0;
  int64_t prompt = 0;

  bool operator==(const Document&) const = default;
};

/// The lines of a text whose tokens are bytes, each with its line end. What a line begins with, up
/// to its first byte `promptEnd` and with that, is its prompt; where there is no such byte it has
/// none.
std::vector<Document> linesOf(const TokenView& text, std::optional<uint8_t> promptEnd = {});

/// Inputs are the tokens [start, start + length), labels those that follow each of them, of which
/// the first `uncounted` do not count. The rest of the context is padding.
struct TokenWindow {
  int64_t start = 0, length = 0, uncounted = 0;

  int64_t counted() const { return length - uncounted; }
  bool operator==(const TokenWindow&) const = default;
};

class Documents {
 public:
  /// Throws InvalidArgument unless the context is positive and each document begins where another
  /// one ends or later, and has a prompt of 0 tokens or more. Those of fewer than two tokens have
  /// no window.
  Documents(const std::vector<Document>& documents, int64_t context);

  int64_t context() const { return context_; }
  /// Where the last one ends; 0 without documents.
  int64_t end() const { return end_; }
  int64_t windows() const { return firstWindows_.back(); }
  /// From 0, document by document.
  TokenWindow window(int64_t number) const;
  /// Labels of all windows that count.
  int64_t countedTokens() const { return counted_; }

 private:
  int64_t context_, end_ = 0, counted_ = 0;
  std::vector<Document> documents_;    // that have windows
  std::vector<int64_t> firstWindows_;  // of each, and behind the last
};

}  // namespace tutti::parallel
