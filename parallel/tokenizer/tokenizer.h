#pragma once

// Tokenizer: texts to token ids and back. Two kinds: each byte is a token, or byte-level BPE as a
// tokenizer.json describes it.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::parallel {

/// Takes ids in the order of the text, some at a time.
using TokenSink = std::function<void(std::span<const int32_t>)>;

/// Thread safe: several threads may encode and decode at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// All ids are below it.
  virtual int64_t vocabulary() const = 0;
  /// Hands `sink` the ids of a text of any length, without what beginning() says. Throws
  /// InvalidArgument, naming the byte, where the text is not UTF-8 and the tokenizer knows
  /// characters.
  virtual void encodeTo(std::string_view text, const TokenSink& sink) const = 0;
  /// The bytes that ids stand for: the text whose ids they are, and for some other ids no UTF-8.
  /// Throws InvalidArgument for an id that is none.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// What models expect before a text: Llama 3's <|begin_of_text|>.
  virtual std::vector<int32_t> beginning() const { return {}; }
  /// The same for tokenizers that give every text the same ids: "bytes", or digits.
  virtual std::string fingerprint() const = 0;

  std::vector<int32_t> encode(std::string_view text) const;
};

/// Of 256 ids, each its byte.
class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocabulary() const override { return 256; }
  void encodeTo(std::string_view text, const TokenSink& sink) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string fingerprint() const override { return "bytes"; }
};

/// What a model goes on from: beginning(), then the prompt, or where there is neither a line end.
std::vector<int32_t> promptTokens(const Tokenizer& tokenizer, std::string_view prompt);

/// The tokenizer of a tokenizer.json, or bytes for an empty path. Throws as parseTokenizer() does,
/// and System where the file cannot be read.
std::unique_ptr<Tokenizer> openTokenizer(const std::string& path);

}  // namespace tutti::parallel
