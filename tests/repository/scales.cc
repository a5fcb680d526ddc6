// Where floating-point numbers are multiplied or divided, told from the tokens of the sources: by a
// sign, by a function, or by a kernel that is given a factor.

#include <algorithm>
#include <cctype>
#include <set>

#include "tests/repository/mutations.h"
#include "tests/repository/number_names.h"

namespace tutti::repository {
namespace {

/// A member or an argument by which a kernel multiplies: alpha, beta, betaBias, scale,
/// gradientScale_, and not AdamW's beta1.
bool isFactorName(const std::string& name) {
  if (name.starts_with("alpha") || name.starts_with("beta"))
    return std::isdigit(static_cast<unsigned char>(name.back())) == 0;
  return name == "scale" || name == "scale_" || name.ends_with("Scale") || name.ends_with("Scale_");
}

/// What multiplies without a sign.
bool isScalingFunction(const std::string& name) {
  static const std::set<std::string> functions{
      "ldexp", "ldexpf", "scalbn",     "scalbnf", "scalbln",  "scalblnf",      "fma",
      "fmaf",  "lerp",   "multiplies", "divides", "midpoint", "inner_product", "transform_reduce"};
  return functions.contains(name);
}

/// The products, quotients and factors of one file.
class Scales {
 public:
  Scales(const TokenizedFile& source, const NumberNames& names) : s_(source), names_(names) {}

  /// Where those are that are floating-point and no factor().
  std::vector<size_t> find() const {
    std::vector<size_t> found;
    for (size_t i = 1; i + 1 < s_.tokens.size(); ++i)
      if ((isBinary(i) && isProduct(i) && !withFactor(i)) || (isScaling(i) && !withinFactor(i)) ||
          isGivenFactor(i))
        found.push_back(i);
    return found;
  }

 private:
  bool isScaling(size_t i) const {
    return isScalingFunction(s_.tokens[i].text) && !s_.is(i - 1, ".") && !s_.is(i - 1, "->");
  }

  /// `.beta = ...`, `slot.beta = ...`, `scale_ = ...` with a value of its own making, and a number
  /// that is an argument of a kernel. What was declared or made elsewhere may be handed on.
  bool isGivenFactor(size_t i) const {
    if (isFactorName(s_.tokens[i].text) && s_.is(i + 1, "=") && !isDeclared(i))
      return !isHandedOn(i + 2, endOfValue(i + 2));
    const bool kernel = (s_.is(i - 1, ".") || s_.is(i - 1, "->")) && i >= 2 &&
                        (s_.is(i - 2, "kernels") || s_.is(i - 2, "kernels_")) && s_.is(i + 1, "(");
    for (size_t begin = i + 2, last = kernel ? matching(s_.tokens, i + 1) : 0; begin < last;) {
      const size_t end = endOfValue(begin);
      if (!s_.is(begin, "{") && !isHandedOn(begin, end)) return true;
      begin = end + 1;
    }
    return false;
  }
  /// `double scale = 1` is the default of a member or an argument.
  bool isDeclared(size_t name) const { return isType(s_.tokens[name - 1]) || isDefault(name); }
  /// The second one of `double betaWeight = 0, betaBias = 0`.
  bool isDefault(size_t name) const {
    while (name > 3 && s_.is(name - 1, ",") && s_.is(name - 3, "=")) name -= 4;
    return isType(s_.tokens[name - 1]);
  }
  /// Of the value that begins there: a comma, a semicolon or a bracket that closes.
  size_t endOfValue(size_t i) const {
    while (i < s_.tokens.size() && !s_.is(i, ",") && !s_.is(i, ";") && !s_.is(i, ")") &&
           !s_.is(i, "}"))
      i = (s_.is(i, "(") || s_.is(i, "{") || s_.is(i, "[") ? matching(s_.tokens, i) : i) + 1;
    return i;
  }
  /// A path, `bias.beta` or `gradients_->sum(piece)`, or a call of factor(). A name that this file
  /// gives a value is what that value is.
  bool isHandedOn(size_t begin, size_t end) const {
    if (s_.is(begin, "factor")) return true;
    for (size_t i = begin; i < end; ++i) {
      const bool joins = s_.is(i, ".") || s_.is(i, "->") || s_.is(i, "::") || s_.is(i, "*");
      if (s_.is(i, "(") || s_.is(i, "[") || s_.is(i, "{"))
        i = matching(s_.tokens, i);
      else if (!joins && (!isName(s_.tokens[i]) || s_.is(i, "static_cast")))
        return false;
    }
    return end != begin + 1 || !isMadeHere(s_.tokens[begin].text);
  }
  /// Whether a variable of that name is declared with a value that is not handed on.
  bool isMadeHere(const std::string& name) const {
    for (size_t i = 1; i + 2 < s_.tokens.size(); ++i)
      if (s_.tokens[i].text == name && s_.is(i + 1, "=") && isType(s_.tokens[i - 1]) &&
          (s_.is(i - 1, "auto") || names_.floating.contains(name)) &&
          !isHandedOn(i + 2, endOfValue(i + 2)))
        return true;
    return false;
  }

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

  /// Where the operand that ends before `sign` begins.
  size_t beginOfLeft(size_t sign) const {
    size_t i = sign - 1;
    while (true) {
      while (s_.is(i, ")") || s_.is(i, "]") || s_.is(i, ">")) {
        const size_t open = matching(s_.tokens, i);
        if (open == 0 || open == i) return i;
        const Token& before = s_.tokens[open - 1];
        if (before.text == "return") return open;
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

  /// Whether one of the operands is not known to be an integer.
  bool isProduct(size_t sign) const {
    return !isInteger(s_, beginOfLeft(sign), sign, names_) ||
           !isInteger(s_, sign + 1, endOfRight(sign), names_);
  }

  bool namesFactor(size_t begin, size_t end) const {
    for (size_t i = begin; i < end; ++i)
      if (s_.is(i, "factor") && s_.is(i + 1, "(")) return true;
    return false;
  }
  /// An operand is a call of factor(), or the product is its argument.
  bool withFactor(size_t sign) const {
    return namesFactor(beginOfLeft(sign), sign) || namesFactor(sign + 1, endOfRight(sign)) ||
           withinFactor(sign);
  }
  bool withinFactor(size_t at) const {
    for (size_t i = 0; i < at; ++i)
      if (s_.is(i, "factor") && s_.is(i + 1, "(") && matching(s_.tokens, i + 1) > at) return true;
    return false;
  }

  const TokenizedFile& s_;
  const NumberNames& names_;
};

bool allows(const AllowedScale& entry, const TokenizedFile& s, size_t sign) {
  return s.file->path.starts_with(entry.file) && s.line(sign).find(entry.text) != std::string::npos;
}

}  // namespace

std::vector<std::string> scalesWithoutPurpose(const std::vector<SourceFile>& files,
                                              const std::vector<AllowedScale>& allowed) {
  const std::vector<TokenizedFile> sources = trainingSources(files);
  NumberNames headers;
  for (const TokenizedFile& s : sources) {
    if (!s.file->path.ends_with(".h")) continue;
    NumberNames its = declaredNumbers(s);
    headers.floating.merge(its.floating);
    headers.integer.merge(its.integer);
  }
  std::vector<std::string> faults;
  std::vector<bool> used(allowed.size());
  for (const TokenizedFile& s : sources) {
    const NumberNames names = numbersIn(s, headers);
    for (const size_t sign : Scales(s, names).find()) {
      bool fine = false;
      for (size_t i = 0; i < allowed.size(); ++i)
        if (allows(allowed[i], s, sign)) fine = used[i] = true;
      if (!fine) faults.push_back(s.place(sign) + "a factor without a purpose: " + s.line(sign));
    }
  }
  for (size_t i = 0; i < allowed.size(); ++i)
    if (!used[i])
      faults.push_back(allowed[i].file + ": nothing there is allowed by: " + allowed[i].reason);
  return faults;
}

}  // namespace tutti::repository
