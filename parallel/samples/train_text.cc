#include "parallel/samples/train_text.h"

#include "parallel/data/token_file.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

std::unique_ptr<Tokenizer> tokenizerOf(const TrainOptions& options) {
  std::unique_ptr<Tokenizer> tokenizer = openTokenizer(options.tokenizer);
  if (options.tokens.empty()) return tokenizer;
  const std::string made = TokenFile(options.tokens).facts().tokenizer;
  require(made == tokenizer->fingerprint(), "--tokens ", options.tokens,
          " was made with tokenizer ", made,
          options.tokenizer.empty()
              ? ": its tokenizer.json is needed, as --tokenizer"
              : message(", and --tokenizer ", options.tokenizer, " is ", tokenizer->fingerprint()));
  return tokenizer;
}

TokenData readTokens(const TrainOptions& options, const Tokenizer& tokenizer) {
  const int64_t context = options.model.context;
  return options.tokens.empty() ? readTextTokens(options.text, tokenizer, context)
                                : readTokenFile(options.tokens, context);
}

}  // namespace tutti::parallel
