#include "parallel/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

struct KnownPattern {
  PatternKind kind;
  std::string_view spelling;  ///< as a tokenizer.json has it
};
constexpr std::array<KnownPattern, 3> kKnown{{
    {PatternKind::Gpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {PatternKind::Llama3, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                          R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {PatternKind::Qwen2, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                         R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
}};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// \s is Unicode's White_Space where the patterns come from; PCRE2's own has U+180E besides.
std::string forPcre2(std::string_view spelling) {
  const std::string spaces = R"(\t-\r\x{85}\p{Z})";
  std::string text = replaced(std::string(spelling), R"([^\s)", "[^" + spaces);
  text = replaced(text, R"(\s)", "[" + spaces + "]");
  return replaced(text, R"(\S)", "[^" + spaces + "]");
}

std::string pcre2Message(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

/// What one match may take: steps in proportion to the text, which is more than any of the patterns
/// needs, and little memory. PCRE2's own limits are ten million steps, which a run of spaces takes,
/// and 20 GB.
std::unique_ptr<pcre2_match_context, FreeMatch> limitsFor(size_t textBytes) {
  constexpr uint32_t kHeapKibibytes = 16 << 10, kLeastSteps = 10'000'000;
  constexpr size_t kStepsPerByte = 4;
  std::unique_ptr<pcre2_match_context, FreeMatch> limits(pcre2_match_context_create(nullptr));
  ensure(limits != nullptr, "PCRE2 has no memory for a match");
  const size_t steps = std::min<size_t>(textBytes, UINT32_MAX / kStepsPerByte) * kStepsPerByte;
  pcre2_set_match_limit(limits.get(), std::max(static_cast<uint32_t>(steps), kLeastSteps));
  pcre2_set_heap_limit(limits.get(), kHeapKibibytes);
  return limits;
}

}  // namespace

struct Pattern::Code {
  pcre2_code* compiled = nullptr;
  ~Code() { pcre2_code_free(compiled); }
};

std::optional<PatternKind> patternOf(std::string_view spelling) {
  for (const KnownPattern& pattern : kKnown)
    if (pattern.spelling == spelling) return pattern.kind;
  return {};
}

std::string_view spellingOf(PatternKind kind) {
  return std::ranges::find(kKnown, kind, &KnownPattern::kind)->spelling;
}

Pattern::Pattern(PatternKind kind) : kind_(kind), code_(std::make_unique<Code>()) {
  const std::string expression = forPcre2(spellingOf(kind));
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()),
                                  expression.size(), PCRE2_UTF, &error, &at, nullptr);
  ensure(code_->compiled != nullptr, "the pattern ", expression, ", at ", at, ": ",
         pcre2Message(error));
  pcre2_jit_compile(code_->compiled, PCRE2_JIT_COMPLETE);  // where it cannot, matching interprets
}

Pattern::~Pattern() = default;

void Pattern::forEachPiece(std::string_view text,
                           const std::function<void(std::string_view)>& piece) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(code_->compiled, nullptr));
  ensure(match != nullptr, "PCRE2 has no memory for a match");
  const auto limits = limitsFor(text.size());
  for (size_t at = 0; at < text.size();) {
    const int found = pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), at, PCRE2_NO_UTF_CHECK, match.get(), limits.get());
    ensure(found > 0, "the pattern fails at byte ", at, ": ", found < 0 ? pcre2Message(found) : "");
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
    // Each of the patterns takes any character, so nothing lies between matches.
    ensure(ends[0] == at && ends[1] > at, "the pattern has left out byte ", at);
    piece(text.substr(at, ends[1] - at));
    at = ends[1];
  }
}

}  // namespace tutti::parallel
