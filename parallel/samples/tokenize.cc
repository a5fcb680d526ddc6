// tokenize: makes a token file of texts, once, for any number of trainings; or checks one.
//
//   tokenize --tokenizer tokenizer.json --text a.txt --text b.txt --output book.tokens
//   tokenize --check book.tokens
//
// It computes with no tensors, so it takes no --device.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "parallel/data/token_data.h"
#include "parallel/data/token_file.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/reports/progress.h"
#include "parallel/tensor/check.h"
#include "parallel/tokenizer/utf8.h"

namespace {

using namespace tutti;
using namespace tutti::parallel;

struct TokenizeOptions {
  std::vector<std::string> texts;
  std::string tokenizer, output, separator, check;
};

void declare(CLI::App& app, TokenizeOptions& o) {
  CLI::Option* text = app.add_option("--text", o.texts, "texts, in the order in which they come");
  CLI::Option* output = app.add_option("--output", o.output, "the token file; there is none yet");
  app.add_option("--tokenizer", o.tokenizer, "a tokenizer.json; default: each byte is a token")
      ->needs(text);
  app.add_option("--separator", o.separator, "what is one token and ends each text: <|endoftext|>")
      ->needs(text);
  app.add_option("--check", o.check, "only checks all of this token file, and says what it is")
      ->excludes(text);
  text->needs(output);
}

std::vector<int32_t> separatorOf(const TokenizeOptions& o, const Tokenizer& tokenizer) {
  if (o.separator.empty()) return {};
  const std::vector<int32_t> ids = tokenizer.encode(o.separator);
  require(ids.size() == 1, "--separator ", o.separator, " is ", ids.size(), " tokens, not one");
  return ids;
}

/// Returns its bytes.
size_t add(const std::string& path, const Tokenizer& tokenizer, TokenFileWriter& writer) {
  const MappedFile text("the text", path);
  requireText(text.name(), text.bytes());
  if (tokenizer.fingerprint() != "bytes") requireUtf8(text.name(), text.bytes());
  tokenizer.encodeTo(text.bytes(), [&](std::span<const int32_t> ids) { writer.add(ids); });
  return text.bytes().size();
}

void show(const std::string& path, const TokenFileFacts& facts) {
  std::printf("%s: %lld tokens of %d bytes, a vocabulary of %lld, tokenizer %s\n", path.c_str(),
              static_cast<long long>(facts.count), facts.idBytes,
              static_cast<long long>(facts.vocabulary), facts.tokenizer.c_str());
  flushOutput();
}

void write(const TokenizeOptions& o) {
  const auto tokenizer = openTokenizer(o.tokenizer);
  const std::vector<int32_t> separator = separatorOf(o, *tokenizer);
  TokenFileWriter writer(o.output, tokenizer->vocabulary(), tokenizer->fingerprint());
  size_t bytes = 0;
  for (const std::string& text : o.texts) {
    bytes += add(text, *tokenizer, writer);
    writer.add(separator);
  }
  const TokenFileFacts facts = writer.finish();
  show(o.output, facts);
  std::printf("%.2f bytes a token\n",
              static_cast<double>(bytes) / static_cast<double>(facts.count));
  flushOutput();
}

void check(const std::string& path) {
  const TokenFile file(path);
  file.verify();
  show(path, file.facts());
}

}  // namespace

int main(int argc, char** argv) {
  TokenizeOptions options;
  CLI::App app(
      "Makes a token file of texts, or checks one. There are no tensors in it, and so no --device.",
      "tokenize");
  addVersionFlag(app);
  declare(app, options);
  try {
    app.parse(argc, argv);
    require(!options.texts.empty() || !options.check.empty(), "--text or --check is needed");
    options.check.empty() ? write(options) : check(options.check);
    return 0;
  } catch (const CLI::ParseError& error) {
    return exitCodeOf(app, error);
  } catch (const std::exception& error) {
    sayError("tokenize", error.what());
    return 1;
  }
}
