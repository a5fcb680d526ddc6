#pragma once

// The tokens of C++ source, as far as a check needs them: names, numbers and operators, without
// comments, strings and preprocessor lines.

#include <string>
#include <vector>

#include "tests/repository/source_tree.h"

namespace tutti::repository {

struct Token {
  std::string text;
  size_t line;  ///< from 1
};

/// A file, which has to outlive this, and its tokens.
struct TokenizedFile {
  const SourceFile* file;
  std::vector<Token> tokens;

  /// "path:line: " of a token.
  std::string place(size_t token) const {
    return file->path + ":" + std::to_string(tokens[token].line) + ": ";
  }
  const std::string& line(size_t token) const { return file->lines[tokens[token].line - 1]; }
  bool is(size_t at, const char* text) const {
    return at < tokens.size() && tokens[at].text == text;
  }
};
TokenizedFile tokenize(const SourceFile& file);

bool isName(const Token& token);
bool isNumber(const Token& token);

/// The bracket that belongs to the one at `at`, either way; `at` itself where there is none.
size_t matching(const std::vector<Token>& tokens, size_t at);

}  // namespace tutti::repository
