#include "parallel/tokenizer/byte_characters.h"

#include "parallel/tokenizer/utf8.h"

namespace tutti::parallel {

namespace {

constexpr uint32_t kFirstOther = 0x100, kEndOfOthers = 0x144;  // 68 bytes are not printable

bool standsForItself(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/// The byte of each character below kEndOfOthers, or -1.
std::array<int, kEndOfOthers> bytesOfCharacters() {
  std::array<int, kEndOfOthers> bytes;
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[byteCharacters()[static_cast<size_t>(byte)]] = byte;
  return bytes;
}

}  // namespace

const std::array<uint32_t, 256>& byteCharacters() {
  static const auto characters = [] {
    std::array<uint32_t, 256> all{};
    uint32_t next = kFirstOther;
    for (uint32_t byte = 0; byte < all.size(); ++byte)
      all[byte] = standsForItself(byte) ? byte : next++;
    return all;
  }();
  return characters;
}

std::string spelled(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += utf8(byteCharacters()[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> unspelled(std::string_view spelling) {
  static const auto bytes = bytesOfCharacters();
  std::string text;
  for (size_t at = 0; at < spelling.size();) {
    const Character character = characterAt(spelling, at);
    if (character.bytes == 0 || character.point >= kEndOfOthers || bytes[character.point] < 0)
      return {};
    text += static_cast<char>(bytes[character.point]);
    at += character.bytes;
  }
  return text;
}

}  // namespace tutti::parallel
