#include "parallel/samples/train_gpt/train_text.h"

#include <algorithm>
#include <filesystem>

#include "parallel/checkpoint/hash.h"
#include "parallel/data/token_file.h"
#include "parallel/huggingface/folder.h"
#include "parallel/samples/sample.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

std::unique_ptr<Tokenizer> tokenizerOf(const TrainOptions& options) {
  std::unique_ptr<Tokenizer> tokenizer = openTokenizer(options.tokenizer);
  if (options.tokens.empty()) return tokenizer;
  const TokenFileFacts facts = TokenFile(options.tokens).facts();
  const std::string& made = facts.tokenizer;
  require(made == tokenizer->fingerprint(), "--tokens ", options.tokens,
          " was made with tokenizer ", made,
          options.tokenizer.empty()
              ? ": its tokenizer.json is needed, as --tokenizer"
              : message(", and --tokenizer ", options.tokenizer, " is ", tokenizer->fingerprint()));
  require(facts.vocabulary == tokenizer->vocabulary(), "--tokens ", options.tokens,
          ": vocabulary: it is ", facts.vocabulary, ", and its tokenizer has ",
          tokenizer->vocabulary());
  return tokenizer;
}

namespace {

/// Throws InvalidArgument where the tokenizer has tokens that the model does not know.
void requireKnown(const TrainOptions& options, const std::string& named,
                  const ModelOptions& model) {
  const int64_t vocabulary = tokenizerOf(options)->vocabulary();
  require(vocabulary <= vocabularyOf(model), named, ": its model has a vocabulary of ",
          vocabularyOf(model), ", and the tokenizer one of ", vocabulary);
}

/// The model of --init-from.
void takeModel(TrainOptions& options) {
  const std::filesystem::path folder = options.initFrom, own = folder / "tokenizer.json";
  if (options.tokenizer.empty() && std::filesystem::exists(own)) options.tokenizer = own;
  require(!options.lines || options.tokenizer.empty(), "--lines is for tokens that are bytes, and ",
          options.initFrom, " has a tokenizer");
  const ModelOptions model = readModel(folder);
  requireKnown(options, message("--init-from ", options.initFrom), model);
  takeSizes(options, "--init-from", model);
}

}  // namespace

void fillModel(TrainOptions& options) {
  if (!options.initFrom.empty()) {
    takeModel(options);
  } else if (!options.named.empty()) {
    requireKnown(options, message("--model ", options.named), modelOf(options));
  } else {
    options.model.vocabulary = tokenizerOf(options)->vocabulary();
  }
}

TokenData readTokens(const TrainOptions& options, const Tokenizer& tokenizer) {
  const int64_t context = options.model.context;
  if (!options.tokens.empty()) return readTokenFile(options.tokens, context);
  if (!options.text.empty()) return readTextTokens(options.text, tokenizer, context);
  const std::vector<uint8_t> text = sampleText();
  return splitText("the text that is used without --text", {text.begin(), text.end()}, tokenizer,
                   context);
}

Windows validationWindows(const TrainOptions& options, const TokenView& validation) {
  const int64_t asked = options.validationTokens > 0 ? options.validationTokens : validation.size();
  const TokenView text = validation.part(0, std::min(asked, validation.size()));
  auto documents = documentsOf(options, text);
  Windows windows =
      documents ? Windows(text, *std::move(documents)) : Windows(text, options.model.context);
  require(windows.countedTokens() > 0, "of the ", text.size(),
          " tokens for validation, at the end of the text, none counts: ",
          text.size() < validation.size() ? "a larger --validation-tokens is needed"
                                          : "a longer text or shorter prompts are needed");
  return windows;
}

std::string fingerprint(const TokenView& text) {
  constexpr int64_t kEnds = 1 << 16;
  const int64_t count = std::min(text.size(), kEnds);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  Hash128 hash;
  for (const int64_t begin : {int64_t{0}, text.size() - count}) {
    text.read(begin, count, ids.data());
    hash.add(ids.data(), ids.size() * sizeof(int32_t));
  }
  return message(text.size(), " tokens, ", hash.digits());
}

}  // namespace tutti::parallel
