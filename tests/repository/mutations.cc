#include "tests/repository/mutations.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>

#include "tests/repository/tokens.h"

namespace tutti::repository {
namespace {

constexpr const char* kPoints = "parallel/mesh/mutation.h";

struct Source {
  const SourceFile* file;
  std::vector<Token> tokens;

  std::string place(size_t token) const {
    return file->path + ":" + std::to_string(tokens[token].line) + ": ";
  }
  bool is(size_t at, const char* text) const {
    return at < tokens.size() && tokens[at].text == text;
  }
  const std::string& line(size_t token) const { return file->lines[tokens[token].line - 1]; }
};

std::vector<Source> readSources(const std::vector<SourceFile>& files) {
  std::vector<Source> sources;
  for (const SourceFile& file : files)
    if (isCode(file.path) && file.path.starts_with("parallel/") &&
        !file.path.starts_with("parallel/kernels/"))
      sources.push_back({&file, tokensOf(file)});
  return sources;
}

/// MutationPoint::Name, a variable `point` or a member of `points`.
bool namesPoint(const Source& s, size_t begin, size_t end) {
  const std::string& last = s.tokens[end - 1].text;
  if (end - begin == 1) return last == "point" || last == "point_";
  if (end - begin != 3) return false;
  const std::string& first = s.tokens[begin].text;
  return (first == "MutationPoint" && s.is(begin + 1, "::")) ||
         ((first == "points" || first == "points_") && s.is(begin + 1, "."));
}

/// Behind the first argument of a call whose bracket is at `open`.
size_t endOfFirstArgument(const Source& s, size_t open) {
  size_t i = open + 1;
  while (i < s.tokens.size() && !s.is(i, ",") && !s.is(i, ")")) {
    const bool opens = s.is(i, "(") || s.is(i, "{") || s.is(i, "[");
    i = (opens ? matching(s.tokens, i) : i) + 1;
  }
  return i;
}

}  // namespace

std::vector<std::string> callsWithoutPoint(const std::vector<SourceFile>& files) {
  static const std::set<std::string> collectives{
      "allReduce",  "reduce", "broadcast",      "allGather", "reduceScatter",
      "allGatherV", "gather", "reduceScatterV", "scatter",   "allToAll",
      "allToAllV",  "scan",   "send",           "receive",   "prepare"};
  std::vector<std::string> faults;
  for (const Source& s : readSources(files)) {
    if (s.file->path == "parallel/mesh/mesh_communicator.cc") continue;
    for (size_t i = 1; i + 1 < s.tokens.size(); ++i) {
      const bool call = (s.is(i - 1, ".") || s.is(i - 1, "->")) &&
                        collectives.contains(s.tokens[i].text) && s.is(i + 1, "(");
      if (call && !namesPoint(s, i + 2, std::max(endOfFirstArgument(s, i + 1), i + 3)))
        faults.push_back(s.place(i) + s.tokens[i].text + " is called without a mutation point");
    }
  }
  return faults;
}

std::vector<std::string> pointsNotNamedOnce(const std::vector<SourceFile>& files) {
  std::map<std::string, std::vector<std::string>> uses;
  bool listed = false;
  const std::vector<Source> sources = readSources(files);
  for (const Source& s : sources) {
    if (s.file->path != kPoints) continue;
    size_t i = 0;
    while (i + 2 < s.tokens.size() && !(s.is(i, "enum") && s.is(i + 2, "MutationPoint"))) ++i;
    while (i < s.tokens.size() && !s.is(i, "{")) ++i;
    for (; i < s.tokens.size() && !s.is(i, "}"); ++i)
      if (isName(s.tokens[i])) listed = true, uses[s.tokens[i].text];
  }
  for (const Source& s : sources) {
    if (s.file->path.starts_with("parallel/mesh/mutation.")) continue;
    for (size_t i = 0; i + 2 < s.tokens.size(); ++i)
      if (s.is(i, "MutationPoint") && s.is(i + 1, "::"))
        uses[s.tokens[i + 2].text].push_back(s.place(i));
  }
  std::vector<std::string> faults;
  for (const auto& [name, places] : uses) {
    if (places.empty()) faults.push_back(std::string(kPoints) + ": nothing passes " + name);
    for (size_t i = 1; i < places.size(); ++i)
      faults.push_back(places[i] + name + " is passed here and at " + places[0]);
  }
  if (!listed) faults.push_back(std::string(kPoints) + ": there is no point");
  return faults;
}

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
void addDeclared(const Source& s, size_t at, std::set<std::string>& names) {
  names.insert(s.tokens[at].text);
  for (size_t i = at + 1; i + 2 < s.tokens.size(); ++i) {
    if (s.is(i, "(") || s.is(i, "{") || s.is(i, "[")) i = matching(s.tokens, i);
    if (s.is(i, ";") || s.is(i, ")") || s.is(i, "}")) return;
    if (!s.is(i, ",") || !isName(s.tokens[i + 1])) continue;
    if (!s.is(i + 2, "=") && !s.is(i + 2, ",") && !s.is(i + 2, ";")) return;
    names.insert(s.tokens[i + 1].text);
  }
}

/// What `s` declares double or float, or begins with a cast to it.
std::set<std::string> floatingNames(const Source& s) {
  std::set<std::string> names;
  for (size_t i = 0; i + 4 < s.tokens.size(); ++i) {
    if (isFloatingType(s.tokens[i])) {
      size_t name = i + 1;
      while (s.is(name, "*") || s.is(name, "&") || s.is(name, "const")) ++name;
      if (name < s.tokens.size() && isName(s.tokens[name])) addDeclared(s, name, names);
    }
    if (isName(s.tokens[i]) && s.is(i + 1, "=") && s.is(i + 2, "static_cast") &&
        isFloatingType(s.tokens[i + 4]))
      names.insert(s.tokens[i].text);
  }
  return names;
}

/// What `s` declares with another type.
std::set<std::string> otherNames(const Source& s) {
  std::set<std::string> names;
  for (size_t i = 1; i < s.tokens.size(); ++i) {
    size_t type = i - 1;
    while (type > 0 && (s.is(type, "*") || s.is(type, "&"))) --type;
    const bool declared = s.is(type, ">") || (isName(s.tokens[type]) && isType(s.tokens[type]));
    if (isName(s.tokens[i]) && declared && !isFloatingType(s.tokens[type]))
      names.insert(s.tokens[i].text);
  }
  return names;
}

/// The products and quotients of one file.
class Scales {
 public:
  Scales(const Source& source, const std::set<std::string>& floating)
      : s_(source), names_(floating) {}

  /// The signs of those that are floating-point and no factor.
  std::vector<size_t> find() const {
    std::vector<size_t> found;
    for (size_t i = 1; i + 1 < s_.tokens.size(); ++i)
      if (isBinary(i) && isFloating(i) && !withFactor(i)) found.push_back(i);
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

  bool isFloatingToken(const Token& token) const {
    const std::string& text = token.text;
    if (isNumber(token))
      return text.find('.') != std::string::npos ||
             text.find(text.starts_with("0x") ? 'p' : 'e') != std::string::npos;
    static const std::set<std::string> functions{"sqrt", "exp", "log", "cos", "sin", "pow", "fabs"};
    return isFloatingType(token) || functions.contains(text) || names_.contains(text);
  }
  bool anyFloating(size_t begin, size_t end) const {
    return std::any_of(s_.tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                       s_.tokens.begin() + static_cast<std::ptrdiff_t>(end),
                       [this](const Token& token) { return isFloatingToken(token); });
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

  bool isFloating(size_t sign) const {
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

  const Source& s_;
  const std::set<std::string>& names_;
};

bool allows(const AllowedScale& entry, const Source& s, size_t sign) {
  return s.file->path.starts_with(entry.file) && s.line(sign).find(entry.text) != std::string::npos;
}

}  // namespace

std::vector<std::string> scalesWithoutPoint(const std::vector<SourceFile>& files,
                                            const std::vector<AllowedScale>& allowed) {
  const std::vector<Source> sources = readSources(files);
  std::set<std::string> inHeaders;
  for (const Source& s : sources)
    if (s.file->path.ends_with(".h")) inHeaders.merge(floatingNames(s));
  std::vector<std::string> faults;
  std::set<const AllowedScale*> used;
  for (const Source& s : sources) {
    if (s.file->path.starts_with("parallel/mesh/mutation.")) continue;
    std::set<std::string> names = floatingNames(s);
    const std::set<std::string> others = otherNames(s);
    std::set_difference(inHeaders.begin(), inHeaders.end(), others.begin(), others.end(),
                        std::inserter(names, names.end()));
    for (const size_t sign : Scales(s, names).find()) {
      bool fine = false;
      for (const AllowedScale& entry : allowed)
        if (allows(entry, s, sign)) fine = used.insert(&entry).second || true;
      if (!fine)
        faults.push_back(s.place(sign) + "a factor without a mutation point: " + s.line(sign));
    }
  }
  for (const AllowedScale& entry : allowed)
    if (!used.contains(&entry))
      faults.push_back(entry.file + ": nothing there is allowed by: " + entry.reason);
  return faults;
}

}  // namespace tutti::repository
