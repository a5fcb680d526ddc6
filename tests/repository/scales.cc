// Where floating-point numbers are multiplied or divided, told from the tokens of the sources.

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "tests/repository/mutations.h"

namespace tutti::repository {
namespace {

bool isFloatingType(const Token& token) { return token.text == "double" || token.text == "float"; }

bool isType(const Token& token) {
  static const std::set<std::string> words{"double", "float", "void", "char",   "int",
                                           "auto",   "const", "bool", "size_t", "string"};
  const std::string& text = token.text;
  return words.contains(text) || text.ends_with("_t") ||
         std::isupper(static_cast<unsigned char>(text[0])) != 0;
}

/// The names of `double a = 1, *b` from a or b on, in a declaration or a list of parameters.
void addDeclared(const TokenizedFile& s, size_t at, std::set<std::string>& names) {
  names.insert(s.tokens[at].text);
  for (size_t i = at + 1; i + 2 < s.tokens.size(); ++i) {
    if (s.is(i, "(") || s.is(i, "{") || s.is(i, "[")) i = matching(s.tokens, i);
    if (s.is(i, ";") || s.is(i, ")") || s.is(i, "}")) return;
    if (!s.is(i, ",") || !isName(s.tokens[i + 1])) continue;
    if (!s.is(i + 2, "=") && !s.is(i + 2, ",") && !s.is(i + 2, ";")) return;
    names.insert(s.tokens[i + 1].text);
  }
}

/// What `s` declares double or float.
std::set<std::string> declaredNames(const TokenizedFile& s) {
  std::set<std::string> names;
  for (size_t i = 0; i + 1 < s.tokens.size(); ++i) {
    if (!isFloatingType(s.tokens[i])) continue;
    size_t name = i + 1;
    while (s.is(name, "*") || s.is(name, "&") || s.is(name, "const")) ++name;
    if (name < s.tokens.size() && isName(s.tokens[name])) addDeclared(s, name, names);
  }
  return names;
}

/// What `s` declares with another type.
std::set<std::string> otherNames(const TokenizedFile& s) {
  std::set<std::string> names;
  for (size_t i = 1; i < s.tokens.size(); ++i) {
    size_t type = i - 1;
    while (type > 0 && (s.is(type, "*") || s.is(type, "&"))) --type;
    const bool declared = s.is(type, ">") || (isName(s.tokens[type]) && isType(s.tokens[type]));
    const bool unknown = isFloatingType(s.tokens[type]) || s.is(type, "auto");
    if (isName(s.tokens[i]) && declared && !unknown) names.insert(s.tokens[i].text);
  }
  return names;
}

bool isFloating(const Token& token, const std::set<std::string>& names) {
  const std::string& text = token.text;
  if (isNumber(token))
    return text.find('.') != std::string::npos ||
           text.find(text.starts_with("0x") ? 'p' : 'e') != std::string::npos;
  static const std::set<std::string> functions{"sqrt", "exp", "log", "cos", "sin", "pow", "fabs"};
  return isFloatingType(token) || functions.contains(text) || names.contains(text);
}

/// Adds what is declared by `auto x = ..., y = ...;` with something of theirs.
void addDeduced(const TokenizedFile& s, std::set<std::string>& names) {
  for (size_t i = 0; i + 2 < s.tokens.size(); ++i) {
    if (!s.is(i, "auto") || !s.is(i + 2, "=")) continue;
    std::string name = s.tokens[i + 1].text;
    for (size_t k = i + 3; k + 2 < s.tokens.size() && !s.is(k, ";"); ++k) {
      if (s.is(k, "(") || s.is(k, "{") || s.is(k, "[")) k = matching(s.tokens, k);
      if (s.is(k, ",") && s.is(k + 2, "=")) name = s.tokens[k + 1].text;
      if (isFloating(s.tokens[k], names)) names.insert(name);
    }
  }
}

/// All of its floating-point names, as far as they can be told.
std::set<std::string> floatingNames(const TokenizedFile& s, const std::set<std::string>& headers) {
  std::set<std::string> names = declaredNames(s);
  const std::set<std::string> others = otherNames(s);
  std::set_difference(headers.begin(), headers.end(), others.begin(), others.end(),
                      std::inserter(names, names.end()));
  addDeduced(s, names);
  return names;
}

/// The products and quotients of one file.
class Scales {
 public:
  Scales(const TokenizedFile& source, const std::set<std::string>& floating)
      : s_(source), names_(floating) {}

  /// The signs of those that are floating-point and no factor.
  std::vector<size_t> find() const {
    std::vector<size_t> found;
    for (size_t i = 1; i + 1 < s_.tokens.size(); ++i)
      if (isBinary(i) && isProduct(i) && !withFactor(i)) found.push_back(i);
    return found;
  }

 private:
  bool isBinary(size_t i) const {
    const Token &sign = s_.tokens[i], &left = s_.tokens[i - 1];
    if (sign.text == "*=" || sign.text == "/=") return true;
    if (sign.text != "*" && sign.text != "/") return false;
    if (left.text == ")" && isControl(matching(s_.tokens, i - 1))) return false;
    if (left.text == "return" || (sign.text == "*" && isName(left) && isType(left))) return false;
    return isName(left) || isNumber(left) || left.text == ")" || left.text == "]";
  }

  /// Whether the bracket is an if's or a loop's, behind which a sign dereferences.
  bool isControl(size_t open) const {
    return open > 0 &&
           (s_.is(open - 1, "if") || s_.is(open - 1, "for") || s_.is(open - 1, "while"));
  }

  bool anyFloating(size_t begin, size_t end) const {
    return std::any_of(s_.tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                       s_.tokens.begin() + static_cast<std::ptrdiff_t>(end),
                       [this](const Token& token) { return isFloating(token, names_); });
  }

  /// Where the operand that ends before `sign` begins.
  size_t beginOfLeft(size_t sign) const {
    size_t i = sign - 1;
    while (true) {
      while (s_.is(i, ")") || s_.is(i, "]") || s_.is(i, ">")) {
        const size_t open = matching(s_.tokens, i);
        if (open == 0 || open == i) return i;
        const Token& before = s_.tokens[open - 1];
        if (!isName(before) && before.text != "]" && before.text != ")" && before.text != ">")
          return open;
        i = open - 1;
      }
      if (i < 2 || !isName(s_.tokens[i])) return i;
      const std::string& join = s_.tokens[i - 1].text;
      if (join != "." && join != "->" && join != "::") return i;
      i -= 2;
    }
  }
  /// Behind the operand that begins after `sign`.
  size_t endOfRight(size_t sign) const {
    size_t i = sign + 1;
    while (s_.is(i, "-") || s_.is(i, "*") || s_.is(i, "!")) ++i;
    if (s_.is(i, "(")) return matching(s_.tokens, i) + 1;
    ++i;
    while (i + 1 < s_.tokens.size()) {
      const bool typed = s_.is(i - 1, "static_cast") || s_.is(i - 1, "as");
      if (s_.is(i, "(") || s_.is(i, "[") || (typed && s_.is(i, "<")))
        i = matching(s_.tokens, i) + 1;
      else if (s_.is(i, ".") || s_.is(i, "->") || s_.is(i, "::"))
        i += 2;
      else
        break;
    }
    return i;
  }

  bool isProduct(size_t sign) const {
    return anyFloating(beginOfLeft(sign), sign) || anyFloating(sign + 1, endOfRight(sign));
  }

  bool namesFactor(size_t begin, size_t end) const {
    for (size_t i = begin; i < end; ++i)
      if (s_.is(i, "factor") && s_.is(i + 1, "(")) return true;
    return false;
  }
  /// An operand is a call of factor(), or the product is its argument.
  bool withFactor(size_t sign) const {
    if (namesFactor(beginOfLeft(sign), sign) || namesFactor(sign + 1, endOfRight(sign)))
      return true;
    for (size_t i = 0; i < sign; ++i)
      if (s_.is(i, "factor") && s_.is(i + 1, "(") && matching(s_.tokens, i + 1) > sign) return true;
    return false;
  }

  const TokenizedFile& s_;
  const std::set<std::string>& names_;
};

bool allows(const AllowedScale& entry, const TokenizedFile& s, size_t sign) {
  return s.file->path.starts_with(entry.file) && s.line(sign).find(entry.text) != std::string::npos;
}

}  // namespace

std::vector<std::string> scalesWithoutPoint(const std::vector<SourceFile>& files,
                                            const std::vector<AllowedScale>& allowed) {
  const std::vector<TokenizedFile> sources = trainingSources(files);
  std::set<std::string> headers;
  for (const TokenizedFile& s : sources)
    if (s.file->path.ends_with(".h")) headers.merge(declaredNames(s));
  std::vector<std::string> faults;
  std::vector<bool> used(allowed.size());
  for (const TokenizedFile& s : sources) {
    if (s.file->path.starts_with("parallel/mesh/mutation.")) continue;  // factor() itself
    const std::set<std::string> names = floatingNames(s, headers);
    for (const size_t sign : Scales(s, names).find()) {
      bool fine = false;
      for (size_t i = 0; i < allowed.size(); ++i)
        if (allows(allowed[i], s, sign)) fine = used[i] = true;
      if (!fine)
        faults.push_back(s.place(sign) + "a factor without a mutation point: " + s.line(sign));
    }
  }
  for (size_t i = 0; i < allowed.size(); ++i)
    if (!used[i])
      faults.push_back(allowed[i].file + ": nothing there is allowed by: " + allowed[i].reason);
  return faults;
}

}  // namespace tutti::repository
