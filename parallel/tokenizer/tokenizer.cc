#include "parallel/tokenizer/tokenizer.h"

#include <algorithm>

#include "parallel/tensor/check.h"
#include "parallel/tokenizer/bpe_tokenizer.h"

namespace tutti::parallel {

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encodeTo(text,
           [&](std::span<const int32_t> more) { ids.insert(ids.end(), more.begin(), more.end()); });
  return ids;
}

void ByteTokenizer::encodeTo(std::string_view text, const TokenSink& sink) const {
  constexpr size_t kAtOnce = 4096;
  std::vector<int32_t> ids;
  for (; !text.empty(); text.remove_prefix(ids.size())) {
    ids.assign(std::min(text.size(), kAtOnce), 0);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]);
    sink(ids);
  }
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    require(id >= 0 && id < vocabulary(), "token ", id, " is no byte");
    text += static_cast<char>(id);
  }
  return text;
}

std::vector<int32_t> promptTokens(const Tokenizer& tokenizer, std::string_view prompt) {
  std::vector<int32_t> ids = tokenizer.beginning();
  const bool nothing = ids.empty() && prompt.empty();
  const std::vector<int32_t> more = tokenizer.encode(nothing ? "\n" : prompt);
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

std::unique_ptr<Tokenizer> openTokenizer(const std::string& path) {
  if (path.empty()) return std::make_unique<ByteTokenizer>();
  return std::make_unique<BpeTokenizer>(readTokenizerFile(path));
}

}  // namespace tutti::parallel
