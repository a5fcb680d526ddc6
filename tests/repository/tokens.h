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

std::vector<Token> tokensOf(const SourceFile& file);

bool isName(const Token& token);
bool isNumber(const Token& token);

/// The bracket that belongs to the one at `at`, either way; `at` itself where there is none.
size_t matching(const std::vector<Token>& tokens, size_t at);

}  // namespace tutti::repository
