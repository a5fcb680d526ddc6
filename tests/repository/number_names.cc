#include "tests/repository/number_names.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace tutti::repository {
namespace {

bool isFloatingType(const Token& token) { return token.text == "double" || token.text == "float"; }

bool isIntegerType(const Token& token) {
  // Of the last ones the elements.
  static const std::set<std::string> types{
      "int",       "unsigned", "long",    "short",   "bool",     "char",    "size_t",
      "ptrdiff_t", "int8_t",   "int16_t", "int32_t", "int64_t",  "uint8_t", "uint16_t",
      "uint32_t",  "uint64_t", "UnitId",  "Shape",   "MeshShape"};
  return types.contains(token.text);
}

bool opens(const TokenizedFile& s, size_t i) {
  return s.is(i, "(") || s.is(i, "{") || s.is(i, "[");
}

/// The names of `double a = 1, *b` from a or b on, in a declaration or a list of parameters.
void addDeclared(const TokenizedFile& s, size_t at, std::set<std::string>& names) {
  names.insert(s.tokens[at].text);
  for (size_t i = at + 1; i + 2 < s.tokens.size(); ++i) {
    if (opens(s, i)) i = matching(s.tokens, i);
    if (s.is(i, ";") || s.is(i, ")") || s.is(i, "}")) return;
    if (!s.is(i, ",") || !isName(s.tokens[i + 1])) continue;
    if (!s.is(i + 2, "=") && !s.is(i + 2, ",") && !s.is(i + 2, ";")) return;
    names.insert(s.tokens[i + 1].text);
  }
}

/// Behind a type at `type`, or behind the containers whose elements these are, the declared name.
size_t nameBehind(const TokenizedFile& s, size_t type) {
  size_t i = type + 1;
  while (s.is(i, "*") || s.is(i, "&") || s.is(i, "const") || s.is(i, ">") || s.is(i, ">>")) ++i;
  return i;
}

/// What `s` declares with another type than a floating-point one.
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

/// Calls visit(name, begin, end) for each `auto name = [begin, end)`, also of several with commas.
template <class Visit>
void forDeduced(const TokenizedFile& s, const Visit& visit) {
  for (size_t i = 0; i + 2 < s.tokens.size(); ++i) {
    if (!s.is(i, "auto") || !s.is(i + 2, "=")) continue;
    for (size_t name = i + 1, begin = i + 3, k = begin; k < s.tokens.size(); ++k) {
      if (opens(s, k)) k = matching(s.tokens, k);
      const bool next = s.is(k, ",") && s.is(k + 2, "=");
      if (!next && !s.is(k, ";") && !s.is(k, ":")) continue;
      visit(s.tokens[name].text, begin, k);
      if (!next) break;
      name = k + 1;
      begin = k + 3;
    }
  }
}

}  // namespace

bool isType(const Token& token) {
  static const std::set<std::string> words{"double", "float", "void", "char",   "int",   "byte",
                                           "auto",   "const", "bool", "size_t", "string"};
  const std::string& text = token.text;
  return words.contains(text) || text.ends_with("_t") ||
         std::isupper(static_cast<unsigned char>(text[0])) != 0;
}

NumberNames declaredNumbers(const TokenizedFile& s) {
  NumberNames names;
  for (size_t i = 0; i + 1 < s.tokens.size(); ++i) {
    const bool floating = isFloatingType(s.tokens[i]);
    if (!floating && !isIntegerType(s.tokens[i])) continue;
    const size_t name = nameBehind(s, i);
    if (name < s.tokens.size() && isName(s.tokens[name]))
      addDeclared(s, name, floating ? names.floating : names.integer);
  }
  return names;
}

bool isFloating(const Token& token, const NumberNames& names) {
  const std::string& text = token.text;
  if (isNumber(token))
    return text.find('.') != std::string::npos ||
           text.find(text.starts_with("0x") ? 'p' : 'e') != std::string::npos;
  static const std::set<std::string> functions{"sqrt", "exp", "log", "cos", "sin", "pow", "fabs"};
  return isFloatingType(token) || functions.contains(text) || names.floating.contains(text);
}

bool isInteger(const TokenizedFile& s, size_t begin, size_t end, const NumberNames& names) {
  // Of the standard library and of include/tutti; those of the second row give what they are given.
  static const std::set<std::string> functions{"sizeof", "sizeOf", "size", "std",
                                               "max",    "min",    "abs",  "clamp"};
  bool any = false;
  for (size_t i = begin; i < end; ++i) {
    const bool cast = s.is(i, "static_cast");
    if (cast || (isIntegerType(s.tokens[i]) && s.is(i + 1, "("))) {
      if (cast && !isIntegerType(s.tokens[matching(s.tokens, i + 1) - 1])) return false;
      if (cast) i = matching(s.tokens, i + 1);
      i = matching(s.tokens, i + 1);
      any = true;
    } else if (isName(s.tokens[i]) || isNumber(s.tokens[i])) {
      const std::string& name = s.tokens[i].text;
      const bool known =
          isNumber(s.tokens[i]) || names.integer.contains(name) || functions.contains(name);
      const bool asked = s.is(i + 1, "(") && (name == "max" || name == "min" || name == "clamp");
      const bool wrong = isFloating(s.tokens[i], names) || !known;
      while (!asked && (s.is(i + 1, "(") || s.is(i + 1, "["))) i = matching(s.tokens, i + 1);
      const bool path = s.is(i + 1, ".") || s.is(i + 1, "->") || s.is(i + 1, "::");
      if (wrong && !path) return false;
      any = true;
    }
  }
  return any;
}

NumberNames numbersIn(const TokenizedFile& s, const NumberNames& headers) {
  NumberNames names = declaredNumbers(s);
  const std::set<std::string> others = otherNames(s);
  for (const std::string& name : headers.floating)
    if (!others.contains(name)) names.floating.insert(name);
  for (const std::string& name : headers.integer)
    if (!names.floating.contains(name)) names.integer.insert(name);
  forDeduced(s, [&](const std::string& name, size_t begin, size_t end) {
    const auto at = [&](size_t i) { return s.tokens.begin() + static_cast<std::ptrdiff_t>(i); };
    if (std::any_of(at(begin), at(end), [&](const Token& t) { return isFloating(t, names); }))
      names.floating.insert(name);
    else if (isInteger(s, begin, end, names))
      names.integer.insert(name);
  });
  return names;
}

}  // namespace tutti::repository
