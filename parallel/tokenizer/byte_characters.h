#pragma once

// How byte-level BPE spells bytes: as characters that all can be seen, so that a vocabulary is a
// list of words. The bytes that are printable in Latin-1 stand for themselves, the others, in
// ascending order, for U+0100 and what follows: a space is U+0120. From "Language Models are
// Unsupervised Multitask Learners" (GPT-2).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::parallel {

/// The code point for each byte.
const std::array<uint32_t, 256>& byteCharacters();
/// "\xc4\xa0" for a space: the spelling of bytes, UTF-8.
std::string spelled(std::string_view bytes);
/// The bytes that are spelled so; none when a character stands for no byte, or it is no UTF-8.
std::optional<std::string> unspelled(std::string_view spelling);

}  // namespace tutti::parallel
