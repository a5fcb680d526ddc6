#pragma once

// What a user or another process has written, where a terminal or a file of a format may show it.

#include <string>
#include <string_view>

namespace tutti::base {

/// `text` in one line of a message that a terminal may show: with a "?" for each control character,
/// those of ASCII and those that UTF-8 has besides, and for each byte that is no UTF-8.
std::string printable(std::string_view text);
/// The same for text of several lines, whose ends and tabs stay.
std::string printableLines(std::string_view text);

/// `text` with U+FFFD for each byte that is no UTF-8, as formats want it that know nothing else.
std::string asUtf8(std::string_view text);

}  // namespace tutti::base
