#pragma once

// UTF-8: what is a character, where a text is none, and what a terminal may be shown.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::parallel {

/// A character of a text: its bytes, 0 where there is none, and its code point.
struct Character {
  size_t bytes = 0;
  uint32_t point = 0;
};

/// The character that begins at byte `at` of `text`. There is none where bytes are missing or more
/// than needed, and none for surrogates and beyond U+10FFFF.
Character characterAt(std::string_view text, size_t at);
/// The character's UTF-8; `point` is one that characterAt() gives.
std::string utf8(uint32_t point);

/// Throws InvalidArgument, beginning with `where`, unless `text` is UTF-8; names the first byte
/// that is not.
void requireUtf8(std::string_view where, std::string_view text);

/// `text` with what a terminal could not show (control characters, bytes that are no UTF-8)
/// replaced by '?'.
std::string printable(std::string_view text);

}  // namespace tutti::parallel
