#pragma once

// What a training learns from: a text, under some tokenizer, or a token file.

#include <string>
#include <string_view>

#include "parallel/data/token_view.h"
#include "parallel/tokenizer/tokenizer.h"

namespace tutti::parallel {

/// The last 5% of the tokens are for validation.
struct TokenData {
  TokenView train, validation;
};

/// Reads all of the text at `path`. Throws InvalidArgument naming the file, and the byte where that
/// is the reason, when it cannot be read, is not a regular file, is empty, binary (it has a zero
/// byte) or no text to the tokenizer, or too short for one window of `context` in either part.
TokenData readTextTokens(const std::string& path, const Tokenizer& tokenizer, int64_t context);
/// The same of a text that is here already; `name` begins messages about it.
TokenData splitText(const std::string& name, const std::string& text, const Tokenizer& tokenizer,
                    int64_t context);
/// Maps a token file. Throws as TokenFile does, and when it is too short for `context`.
TokenData readTokenFile(const std::string& path, int64_t context);

/// Throws InvalidArgument, beginning with `name`, when this is nobody's text: empty, or with a zero
/// byte.
void requireText(const std::string& name, std::string_view bytes);

}  // namespace tutti::parallel
