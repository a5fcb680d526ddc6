#include "src/tools/common/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/base/check.h"

namespace tutti::tools {

uint64_t parseBytes(const std::string& flag, const std::string& text) {
  uint64_t value = 0;
  double fraction = 0;
  const char* end = text.data() + text.size();
  const auto whole = std::from_chars(text.data(), end, value);
  const char* rest = whole.ptr;
  bool isNumber = whole.ec != std::errc::invalid_argument;
  const bool hasFraction = isNumber && rest != end && *rest == '.';
  if (hasFraction) {
    const auto parsed = std::from_chars(rest, end, fraction, std::chars_format::fixed);
    rest = parsed.ptr;
    isNumber = parsed.ec == std::errc();
  }
  int shift = 0;
  if (isNumber && rest + 1 == end) {
    switch (*rest++) {
      case 'k':
      case 'K': shift = 10; break;
      case 'm':
      case 'M': shift = 20; break;
      case 'g':
      case 'G': shift = 30; break;
      default: --rest;
    }
  }
  TUTTI_REQUIRE(isNumber && rest == end && !(hasFraction && shift == 0), flag, " ", text,
                " is not a size: a whole number of bytes, or a number with K, M or G");
  const uint64_t more = static_cast<uint64_t>(std::ldexp(fraction, shift));
  TUTTI_REQUIRE(whole.ec == std::errc() && value <= UINT64_MAX >> shift &&
                    more <= UINT64_MAX - (value << shift),
                flag, " ", text, " is more than 2^64 - 1 bytes");
  return (value << shift) + more;
}

int64_t parseWhole(const std::string& flag, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  TUTTI_REQUIRE(error == std::errc() && rest == end && value >= least && value <= most, flag, " ",
                text, " is not a whole number from ", least, " to ", most);
  return value;
}

std::vector<std::string> parseList(const std::string& flag, const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0, end = 0; end != text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    TUTTI_REQUIRE(!words.back().empty(), flag, " \"", text, "\": between its commas is nothing");
  }
  return words;
}

}  // namespace tutti::tools
