#include "src/base/printable.h"

#include <cstddef>

namespace tutti::base {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned byteAt(std::string_view text, size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

/// The bytes of the character there, 1 to 4; 0: none begins there, or it is cut off, too long, half
/// of a pair, or beyond the last.
size_t lengthOfCharacter(std::string_view text, size_t at) {
  const unsigned first = byteAt(text, at), second = byteAt(text, at + 1);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i)
    if ((byteAt(text, at + i) & 0xC0) != 0x80) return 0;
  const bool isWrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                       (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return isWrong ? 0 : length;
}

// U+0080 to U+009F are controls; some terminals take U+009B for the start of a command.
bool isControl(std::string_view character) {
  const unsigned first = byteAt(character, 0);
  return first < 0x20 || first == 0x7F || (first == 0xC2 && byteAt(character, 1) < 0xA0);
}

/// `text` with `show(character)` for each; an empty one stands for a byte that is no UTF-8.
template <class Show>
std::string shown(std::string_view text, const Show& show) {
  std::string all;
  all.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = lengthOfCharacter(text, at);
    all += show(text.substr(at, length));
    at += length == 0 ? 1 : length;
  }
  return all;
}

}  // namespace

std::string printable(std::string_view text) {
  return shown(text, [](std::string_view character) {
    return character.empty() || isControl(character) ? "?" : character;
  });
}

std::string printableLines(std::string_view text) {
  return shown(text, [](std::string_view character) {
    const bool stays = character == "\n" || character == "\t";
    return !stays && (character.empty() || isControl(character)) ? "?" : character;
  });
}

std::string asUtf8(std::string_view text) {
  return shown(text, [](std::string_view character) {
    return character.empty() ? kReplacement : character;
  });
}

}  // namespace tutti::base
