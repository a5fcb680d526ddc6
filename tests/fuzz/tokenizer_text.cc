// Texts, cut by the regular expression of a tokenizer: pieces and ids give the text again.
//
// First byte: which expression; second: from 128 on the rest is repeated, up to 16 KiB. Long texts
// must take neither much stack nor much time.

#include <iterator>

#include "parallel/tokenizer/bpe_tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

using parallel::PatternKind;

constexpr size_t kMostBytes = 1 << 14;

/// The tokenizer of bytes with one of the expressions, and the expression by itself.
struct Cutter {
  explicit Cutter(PatternKind kind) : tokenizer(descriptionOf(kind)), pattern(kind) {}
  const parallel::BpeTokenizer tokenizer;
  const parallel::Pattern pattern;

 private:
  static parallel::TokenizerDescription descriptionOf(PatternKind kind) {
    auto description = parallel::parseTokenizer("bytes", parallel::byteTokenizerText());
    description.pattern = kind;
    return description;
  }
};

void run(Input input) {
  static const Cutter cutters[] = {Cutter(PatternKind::Gpt2), Cutter(PatternKind::Llama3),
                                   Cutter(PatternKind::Qwen2)};
  const Cutter& cutter = cutters[input.byte() % std::size(cutters)];
  const uint8_t repeated = input.byte();
  const size_t times = repeated < 128 ? 1 : size_t{64} * (repeated - 127u);
  const std::string once = input.text();
  std::string text;
  for (size_t i = 0; i < times && text.size() + once.size() <= kMostBytes; ++i) text += once;
  takes({ErrorCode::InvalidArgument}, [&] {
    const auto ids = cutter.tokenizer.encode(text);
    expect(cutter.tokenizer.decode(ids) == text, "a text comes back from its ids");
    std::string joined;
    cutter.pattern.forEachPiece(text, [&](std::string_view piece) {
      expect(!piece.empty(), "no piece is empty");
      joined += piece;
    });
    expect(joined == text, "pieces are the text");
  });
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
