#include "tests/repository/tokens.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace tutti::repository {
namespace {

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool isDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Reads one file from its beginning to its end.
class Lexer {
 public:
  explicit Lexer(const SourceFile& file) {
    for (const std::string& line : file.lines) text_ += line + "\n";
  }

  std::vector<Token> run() {
    while (at_ < text_.size()) next();
    return std::move(tokens_);
  }

 private:
  bool starts(std::string_view what) const {
    return std::string_view(text_).substr(at_).starts_with(what);
  }
  void advance(size_t to) {
    to = std::min(to, text_.size());
    line_ += static_cast<size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                            text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  /// Behind the first `end` from `from` on.
  size_t behind(std::string_view end, size_t from) const {
    const size_t found = text_.find(end, from);
    return found == std::string::npos ? text_.size() : found + end.size();
  }
  void take(size_t length) {
    tokens_.push_back({text_.substr(at_, length), line_});
    advance(at_ + length);
  }

  void next() {
    const char c = text_[at_];
    if (starts("//")) return advance(text_.find('\n', at_));
    if (starts("/*")) return advance(behind("*/", at_ + 2));
    if (starts("R\"")) return advance(rawString());
    if (c == '#' && onlySpacesBefore()) return advance(behind("\n", at_));
    if (c == '"' || c == '\'') return advance(quoted(c));
    if (isDigit(c) || (c == '.' && at_ + 1 < text_.size() && isDigit(text_[at_ + 1])))
      return take(number());
    if (isWord(c)) return take(word());
    if (std::isspace(static_cast<unsigned char>(c)) != 0) return advance(at_ + 1);
    for (const std::string_view sign : kSigns)
      if (starts(sign)) return take(sign.size());
    take(1);
  }

  bool onlySpacesBefore() const {
    const size_t begin = at_ == 0 ? 0 : text_.rfind('\n', at_ - 1) + 1;
    return text_.find_first_not_of(" \t", begin) == at_;
  }
  size_t rawString() const {
    const size_t open = text_.find('(', at_);
    return behind(")" + text_.substr(at_ + 2, open - at_ - 2) + "\"", open);
  }
  size_t quoted(char quote) const {
    size_t i = at_ + 1;
    while (i < text_.size() && text_[i] != quote) i += text_[i] == '\\' ? 2 : 1;
    return i + 1;
  }
  size_t word() const {
    size_t i = at_;
    while (i < text_.size() && isWord(text_[i])) ++i;
    return i - at_;
  }
  /// With separators, points and signed exponents.
  size_t number() const {
    size_t i = at_;
    const bool hex = starts("0x");
    while (i < text_.size()) {
      const char c = text_[i], before = i > at_ ? text_[i - 1] : ' ';
      const bool exponent = hex ? before == 'p' : before == 'e' || before == 'E';
      if (!isWord(c) && c != '.' && c != '\'' && !((c == '-' || c == '+') && exponent)) break;
      ++i;
    }
    return i - at_;
  }

  static constexpr std::array<std::string_view, 16> kSigns{"->", "::", "*=", "/=", "+=", "-=",
                                                           "==", "!=", "<=", ">=", "&&", "||",
                                                           "++", "--", "<<", ">>"};

  std::string text_;
  size_t at_ = 0, line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

TokenizedFile tokenize(const SourceFile& file) { return {&file, Lexer(file).run()}; }

bool isNumber(const Token& token) {
  return isDigit(token.text[0]) || (token.text[0] == '.' && token.text.size() > 1);
}
bool isName(const Token& token) { return isWord(token.text[0]) && !isDigit(token.text[0]); }

size_t matching(const std::vector<Token>& tokens, size_t at) {
  static const std::string open = "([{<", close = ")]}>";
  const char mine = tokens[at].text[0];
  const bool forward = open.find(mine) != std::string::npos;
  const size_t kind = (forward ? open : close).find(mine);
  int depth = 0;
  for (size_t i = at; i < tokens.size(); i += forward ? 1 : size_t(-1)) {
    if (tokens[i].text == std::string(1, open[kind])) depth += forward ? 1 : -1;
    if (tokens[i].text == std::string(1, close[kind])) depth += forward ? -1 : 1;
    if (depth == 0) return i;
  }
  return at;
}

}  // namespace tutti::repository
