// tokenizer.json. Under each that is taken a text comes back from its ids.
//
// The first "@" stands for the tokens of the 256 bytes, which every vocabulary must have.

#include "parallel/checkpoint/json.h"
#include "parallel/tokenizer/bpe_tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

/// `"!":33,...` of all bytes.
std::string byteTokens() {
  const auto vocabulary =
      parallel::parseTokenizer("bytes", parallel::byteTokenizerText()).vocabulary;
  const std::string object = parallel::Json(vocabulary).dump();
  return object.substr(1, object.size() - 2);
}

void run(std::string text) {
  static const std::string tokens = byteTokens();
  if (const size_t at = text.find('@'); at != text.npos) text.replace(at, 1, tokens);
  takes({ErrorCode::InvalidArgument}, [&] {
    const parallel::BpeTokenizer tokenizer(parallel::parseTokenizer("a file", text));
    const std::string sample = "It's 1234 \t\r\n \xc3\xa9t\xc3\xa9, <|endoftext|>aabbcc  ";
    const auto ids = tokenizer.encode(sample);
    for (const int32_t id : ids)
      expect(id >= 0 && id < tokenizer.vocabulary(), "ids are of the vocabulary");
    expect(tokenizer.decode(ids) == sample, "a text comes back from its ids");
  });
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run(tutti::fuzz::Input(data, size).text());
  return 0;
}
