#pragma once

// Pre-tokenization: how a text is cut into the pieces that merges stay within. It is a regular
// expression with Unicode classes, run by PCRE2. Those of the models that are known here are known
// by their spelling, and nothing else is run: expressions of another library that mean something
// slightly different would give other tokens in silence.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::parallel {

enum class PatternKind { Gpt2, Llama3, Qwen2 };

/// The kind that a tokenizer.json spells so.
std::optional<PatternKind> patternOf(std::string_view spelling);
std::string_view spellingOf(PatternKind kind);

class Pattern {
 public:
  explicit Pattern(PatternKind kind);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  PatternKind kind() const { return kind_; }
  /// Calls `piece` for each piece of `text`, in order; together they are the text, which must be
  /// UTF-8. Thread safe.
  void forEachPiece(std::string_view text,
                    const std::function<void(std::string_view)>& piece) const;

 private:
  struct Code;
  const PatternKind kind_;
  std::unique_ptr<Code> code_;
};

}  // namespace tutti::parallel
