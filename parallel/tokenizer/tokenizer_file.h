#pragma once

// tokenizer.json, the file in which Hugging Face's library `tokenizers` keeps a tokenizer: what it
// says of one that is byte-level BPE, as GPT-2's and Llama 3's are. Everything else that such a
// file can ask for (normalizers, other models, other pre-tokenizers, ...) is refused by its name.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/tokenizer/pattern.h"

namespace tutti::parallel {

/// A text that is one token wherever it stands, before anything else is looked at.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool normalized = false;  ///< is looked for after those that are not
  bool operator==(const AddedToken&) const = default;
};

struct TokenizerDescription {
  std::map<std::string, int32_t> vocabulary;  ///< by spelling (byte_characters.h)
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<AddedToken> added;
  PatternKind pattern = PatternKind::Gpt2;
  bool wholeWords = false;  ///< a piece that is in the vocabulary is its token ("ignore_merges")
  std::vector<int32_t> beginning;  ///< what stands before every text
  bool operator==(const TokenizerDescription&) const = default;
};

/// The longest file that is read: that of Llama 3 has 9 MB.
inline constexpr uint64_t kMostTokenizerBytes = 200'000'000;

/// Throws InvalidArgument, beginning with `where` and with the member named, for what is no
/// tokenizer.json, contradicts itself, or asks for what is not done here. "truncation" and
/// "padding" are not followed: they are about batches of short texts.
TokenizerDescription parseTokenizer(const std::string& where, std::string_view text);
TokenizerDescription readTokenizerFile(const std::filesystem::path& path);

/// The file of a tokenizer that gives each byte its own number.
std::string byteTokenizerText();
/// The text of a tokenizer.json, or of that of bytes for an empty path.
std::string tokenizerText(const std::string& path);

}  // namespace tutti::parallel
