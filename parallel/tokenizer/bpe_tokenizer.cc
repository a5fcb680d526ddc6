#include "parallel/tokenizer/bpe_tokenizer.h"

#include <algorithm>

#include "parallel/checkpoint/hash.h"
#include "parallel/tensor/check.h"
#include "parallel/tokenizer/byte_characters.h"
#include "parallel/tokenizer/utf8.h"

namespace tutti::parallel {

namespace {

std::array<int32_t, 256> byteTokens(const TokenizerDescription& description) {
  std::array<int32_t, 256> tokens{};
  for (size_t byte = 0; byte < tokens.size(); ++byte)
    tokens[byte] = description.vocabulary.at(spelled(std::string(1, static_cast<char>(byte))));
  return tokens;
}

std::vector<Bpe::Merge> mergesOf(const TokenizerDescription& description) {
  std::vector<Bpe::Merge> merges;
  const auto& ids = description.vocabulary;
  for (const auto& [left, right] : description.merges)
    merges.push_back({ids.at(left), ids.at(right), ids.at(left + right)});
  return merges;
}

/// Of all that decides which ids a text has, each with its length, in one order.
std::string fingerprintOf(const TokenizerDescription& description) {
  Hash128 hash;
  const auto number = [&](uint64_t value) { hash.add(&value, sizeof(value)); };
  const auto text = [&](std::string_view value) {
    number(value.size());
    hash.add(value.data(), value.size());
  };
  text(spellingOf(description.pattern));
  number(description.wholeWords);
  number(description.vocabulary.size());
  for (const auto& [token, id] : description.vocabulary) text(token), number(uint64_t(id));
  number(description.merges.size());
  for (const auto& [left, right] : description.merges) text(left), text(right);
  for (const AddedToken& added : description.added)
    text(added.content), number(uint64_t(added.id)), number(added.normalized);
  return hash.digits();
}

}  // namespace

/// One text on its way to `sink`. Pieces come again and again, so their ids are kept.
class BpeTokenizer::Encoding {
 public:
  Encoding(const BpeTokenizer& tokenizer, const TokenSink& sink)
      : tokenizer_(tokenizer), sink_(sink) {}

  /// `pass`: which added tokens are looked for next; behind the last it is pieces.
  void text(std::string_view text, size_t pass) {
    if (pass == tokenizer_.added_.size())
      return tokenizer_.pattern_.forEachPiece(text, [&](std::string_view word) { piece(word); });
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const AddedToken* added = addedAt(text.substr(at), pass);
      if (added == nullptr) {
        ++at;
        continue;
      }
      this->text(text.substr(begin, at - begin), pass + 1);
      emit({&added->id, 1});
      begin = at += added->content.size();
    }
    this->text(text.substr(begin), pass + 1);
  }

  void finish() {
    sink_(ids_);
    ids_.clear();
  }

 private:
  const AddedToken* addedAt(std::string_view text, size_t pass) const {
    for (const AddedToken& token : tokenizer_.added_[pass][static_cast<unsigned char>(text[0])])
      if (text.starts_with(token.content)) return &token;
    return nullptr;
  }

  void piece(std::string_view word) {
    const std::string key(word);
    if (const auto whole = tokenizer_.wholeWords_.find(key); whole != tokenizer_.wholeWords_.end())
      return emit({&whole->second, 1});
    if (const auto known = known_.find(key); known != known_.end()) return emit(known->second);
    std::vector<int32_t> ids;
    tokenizer_.bpe_.encode(word, ids);
    emit(ids);
    if (word.size() <= kMostKeptBytes && known_.size() < kMostKept) known_.emplace(key, ids);
  }

  void emit(std::span<const int32_t> ids) {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    if (ids_.size() >= kAtOnce) finish();
  }

  static constexpr size_t kAtOnce = 4096, kMostKept = 1 << 16, kMostKeptBytes = 64;
  const BpeTokenizer& tokenizer_;
  const TokenSink& sink_;
  std::vector<int32_t> ids_;
  std::unordered_map<std::string, std::vector<int32_t>> known_;
};

BpeTokenizer::BpeTokenizer(const TokenizerDescription& description)
    : fingerprint_(fingerprintOf(description)),
      beginning_(description.beginning),
      pattern_(description.pattern),
      bpe_(byteTokens(description), mergesOf(description)) {
  for (const auto& [token, id] : description.vocabulary) {
    // A token that is no spelling of bytes is itself: no text has it.
    const auto bytes = unspelled(token);
    bytes_[id] = bytes.value_or(token);
    if (description.wholeWords && bytes) wholeWords_[*bytes] = id;
  }
  for (const AddedToken& token : description.added) {
    added_[token.normalized][static_cast<unsigned char>(token.content[0])].push_back(token);
    bytes_[token.id] = token.content;
  }
  for (AddedTokens& pass : added_)
    for (auto& tokens : pass)
      std::ranges::sort(tokens, std::greater<>(), [](const auto& t) { return t.content.size(); });
  for (const auto& [id, bytes] : bytes_) vocabulary_ = std::max(vocabulary_, int64_t{id} + 1);
}

void BpeTokenizer::encodeTo(std::string_view text, const TokenSink& sink) const {
  requireUtf8("the text", text);
  Encoding encoding(*this, sink);
  encoding.text(text, 0);
  encoding.finish();
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    const auto found = bytes_.find(id);
    require(found != bytes_.end(), "token ", id, " is not in the vocabulary");
    text += found->second;
  }
  return text;
}

}  // namespace tutti::parallel
