#pragma once

// What a user or another process has written, in one line of a message that a terminal may show.

#include <string>
#include <string_view>

namespace tutti::base {

/// `text` with a "?" for each control character: those of ASCII, and those that UTF-8 has besides.
std::string printable(std::string_view text);

}  // namespace tutti::base
