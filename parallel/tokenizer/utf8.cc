#include "parallel/tokenizer/utf8.h"

#include <algorithm>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

/// The character that `lead` begins, if it is UTF-8: its length, the bits of the lead that count,
/// and the least code point that needs so many bytes.
struct Lead {
  size_t length = 0;
  uint32_t bits = 0, least = 0;
};
Lead leadOf(unsigned char lead) {
  if (lead < 0x80) return {1, lead, 0};
  if (lead >> 5 == 0b110) return {2, lead & 0x1fu, 0x80};
  if (lead >> 4 == 0b1110) return {3, lead & 0xfu, 0x800};
  if (lead >> 3 == 0b11110) return {4, lead & 7u, 0x10000};
  return {};
}

bool shows(uint32_t point) {
  const bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
  return point == '\n' || point == '\t' || !control;
}

}  // namespace

Character characterAt(std::string_view text, size_t at) {
  const Lead lead = leadOf(static_cast<unsigned char>(text[at]));
  if (lead.length == 0 || at + lead.length > text.size()) return {};
  uint32_t point = lead.bits;
  for (size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if (byte >> 6 != 0b10) return {};
    point = point << 6 | (byte & 0x3fu);
  }
  const bool surrogate = point >= 0xd800 && point < 0xe000;
  if (point < lead.least || surrogate || point > 0x10ffff) return {};
  return {lead.length, point};
}

std::string utf8(uint32_t point) {
  const auto more = [&](int shift) { return static_cast<char>(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xc0 | point >> 6), more(0)};
  if (point < 0x10000) return {static_cast<char>(0xe0 | point >> 12), more(6), more(0)};
  return {static_cast<char>(0xf0 | point >> 18), more(12), more(6), more(0)};
}

void requireUtf8(std::string_view where, std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = characterAt(text, at).bytes;
    require(bytes > 0, where, ": byte ", at, " is no UTF-8");
    at += bytes;
  }
}

std::string printable(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const Character character = characterAt(text, at);
    const bool shown = character.bytes > 0 && shows(character.point);
    result += shown ? text.substr(at, character.bytes) : "?";
    at += shown ? character.bytes : 1;
  }
  return result;
}

}  // namespace tutti::parallel
