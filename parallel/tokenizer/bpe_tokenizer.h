#pragma once

// BpeTokenizer: byte-level BPE as in GPT-2 and Llama 3. A text is cut at added tokens, then by the
// pattern into pieces, whose bytes are merged (bpe.h).

#include <unordered_map>

#include "parallel/tokenizer/bpe.h"
#include "parallel/tokenizer/tokenizer.h"
#include "parallel/tokenizer/tokenizer_file.h"

namespace tutti::parallel {

class BpeTokenizer final : public Tokenizer {
 public:
  /// `description` is one that parseTokenizer() gives.
  explicit BpeTokenizer(const TokenizerDescription& description);
  int64_t vocabulary() const override { return vocabulary_; }
  void encodeTo(std::string_view text, const TokenSink& sink) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::vector<int32_t> beginning() const override { return beginning_; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  /// Added tokens of one pass over a text, by first byte, longest first.
  using AddedTokens = std::array<std::vector<AddedToken>, 256>;
  class Encoding;

  int64_t vocabulary_ = 0;
  std::string fingerprint_;
  std::vector<int32_t> beginning_;
  std::array<AddedTokens, 2> added_;
  Pattern pattern_;
  std::unordered_map<std::string, int32_t> wholeWords_;  ///< by bytes; empty where merges decide
  std::unordered_map<int32_t, std::string> bytes_;       ///< by id
  Bpe bpe_;
};

}  // namespace tutti::parallel
