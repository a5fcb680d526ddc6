#include "parallel/sharding/notation.h"

#include <algorithm>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

bool isCapital(char c) { return c >= 'A' && c <= 'Z'; }
bool isSmall(char c) { return c >= 'a' && c <= 'z'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(const std::string& text, const AxisLetters& letters) : text_(text), letters_(letters) {
    require(text.size() <= kLongestProduct, "an expression has at most ", kLongestProduct,
            " characters, not ", text.size());
  }

  Product product() {
    Product result;
    result.a = term();
    result.b = term();
    expect("->", "\"->\" and the result");
    result.c = term();
    if (next() != '\0') refuse("the end");
    return result;
  }

 private:
  Term term() {
    Term result{.name = name(), .indices = {}, .layout = {}};
    expect("[", "\"[\"");
    if (!accept(']')) {
      do index(result);
      while (accept(','));
      expect("]", "a comma or \"]\"");
    }
    if (accept('{')) {
      expect("U", "\"U\" and the axes that values are summands over");
      axes(result, [&](Axis axis) { result.layout.partial.insert(axis); });
      require(!result.layout.partial.empty(), where(), "\"U\" names no axis");
      expect("}", "\"}\"");
    }
    return result;
  }

  std::string name() {
    if (!isCapital(next())) refuse("the name of a tensor, like A or W1");
    std::string result;
    for (char c = next(); isCapital(c) || isSmall(c) || isDigit(c);
         c = at_ < end() ? text_[at_] : 0)
      result += text_[at_++];
    require(result.size() <= kLongestName, where(), "a name has at most ", kLongestName,
            " characters");
    return result;
  }

  void index(Term& term) {
    const char letter = next();
    if (!isCapital(letter)) refuse("an index, which is a capital letter");
    ++at_;
    require(term.dimensionOf(letter) < 0, where(), letter, " is twice in ", term.name);
    require(term.indices.size() < kMaxDims, where(), term.name, " has more than ", kMaxDims,
            " indices");
    AxisList& list = term.layout.dims[term.indices.size()];
    term.indices += letter;
    axes(term, [&](Axis axis) { list.append(axis); });
  }

  template <class Add>
  void axes(const Term& term, const Add& add) {
    for (; isSmall(next()); ++at_) {
      const size_t axis = letters_.all().find(next());
      require(axis != std::string::npos, where(), "there is no axis ", next(), " in the mesh, but ",
              letters_.all().empty() ? "none" : letters_.all());
      require(!term.layout.axes().contains(static_cast<Axis>(axis)), where(), next(),
              " is twice in ", term.name);
      add(static_cast<Axis>(axis));
    }
  }

  size_t end() const { return text_.size(); }

  /// Behind spaces; 0 at the end.
  char next() {
    while (at_ < end() && text_[at_] == ' ') ++at_;
    return at_ < end() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }

  void expect(const std::string& word, const std::string& wanted) {
    next();
    if (text_.compare(at_, word.size(), word) != 0) refuse(wanted);
    at_ += word.size();
  }

  std::string where() const { return message("\"", text_, "\", character ", at_ + 1, ": "); }

  [[noreturn]] void refuse(const std::string& wanted) const {
    fail(ErrorCode::InvalidArgument, where(), wanted, " is expected",
         at_ < end() ? "" : ", and nothing follows");
  }

  const std::string& text_;
  const AxisLetters& letters_;
  size_t at_ = 0;
};

/// Each index is in two of the three, at least.
void requireShared(const Product& p, const std::string& text) {
  const auto check = [&](const Term& own, const Term& other, const Term& third) {
    for (const char index : own.indices)
      require(other.dimensionOf(index) >= 0 || third.dimensionOf(index) >= 0, "\"", text,
              "\": ", index, " is in ", own.name, " alone");
  };
  check(p.a, p.b, p.c);
  check(p.b, p.a, p.c);
  check(p.c, p.a, p.b);
}

}  // namespace

int Term::dimensionOf(char index) const {
  const size_t place = indices.find(index);
  return place == std::string::npos ? -1 : static_cast<int>(place);
}

const AxisList& Term::axesOf(char index) const {
  static const AxisList none;
  const int d = dimensionOf(index);
  return d < 0 ? none : layout.dims[static_cast<size_t>(d)];
}

char Term::indexSplitBy(Axis axis) const {
  const auto splits = [&](char index) {
    return std::ranges::find(axesOf(index), axis) != axesOf(index).end();
  };
  const auto found = std::ranges::find_if(indices, splits);
  return found == indices.end() ? '\0' : *found;
}

AxisLetters::AxisLetters(const std::string& letters) : letters_(letters) {
  require(letters.size() <= kAxisCount, "a mesh has at most ", kAxisCount, " axes, not ",
          letters.size());
  for (size_t i = 0; i < letters.size(); ++i) {
    require(isSmall(letters[i]), "an axis is a small letter, not ", letters[i]);
    require(letters.find(letters[i]) == i, "the axis ", letters[i], " is there twice");
  }
}

Product parseProduct(const std::string& text, const AxisLetters& letters) {
  Product product = Parser(text, letters).product();
  requireShared(product, text);
  return product;
}

std::string describeLayout(const Term& term, const AxisLetters& letters) {
  std::string text = "[";
  for (const char index : term.indices) {
    if (text.size() > 1) text += ',';
    text += index;
    for (const Axis axis : term.axesOf(index)) text += letters[axis];
  }
  text += ']';
  if (term.layout.partial.empty()) return text;
  text += "{U";
  for (int i = 0; i < kAxisCount; ++i)
    if (term.layout.partial.contains(static_cast<Axis>(i))) text += letters[static_cast<Axis>(i)];
  return text + "}";
}

std::string describe(const Term& term, const AxisLetters& letters) {
  return term.name + describeLayout(term, letters);
}

std::string describe(const Product& product, const AxisLetters& letters) {
  return message(describe(product.a, letters), " ", describe(product.b, letters), " -> ",
                 describe(product.c, letters));
}

}  // namespace tutti::parallel
