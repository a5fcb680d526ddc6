#include "tests/repository/figures.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

namespace tutti::repository {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

bool isAnyOf(const Token& token, std::initializer_list<const char*> texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const char* text) { return token.text == text; });
}

/// Finds the definitions of a file. Bodies of functions are skipped; those of namespaces and types
/// are entered.
class DefinitionReader {
 public:
  explicit DefinitionReader(const TokenizedFile& file) : tokens_(file.tokens) {}

  Definitions run() {
    read(0, tokens_.size(), true);
    return std::move(found_);
  }

 private:
  void read(size_t from, size_t to, bool inNamespace) {
    size_t head = from;  // where the declaration begins
    for (size_t i = from; i < to; ++i) {
      const std::string& text = tokens_[i].text;
      if (text == ";") head = i + 1;
      if (text == "(" || text == "[") i = std::min(matching(tokens_, i), to - 1);
      if (text == ":" && isLabel(i)) head = i + 1;
      if (text != "{") continue;
      const size_t close = matching(tokens_, i);
      if (close == i) return;  // braces that do not match: conditional compilation
      if (!takeBraces(head, i, close, inNamespace)) {
        i = close;  // of an initializer: the declaration goes on
        continue;
      }
      i = close;
      head = close + 1;
    }
  }

  /// "public:" and its like.
  bool isLabel(size_t at) const {
    return at > 0 && isAnyOf(tokens_[at - 1], {"public", "protected", "private"});
  }

  /// False when the braces belong to an initializer.
  bool takeBraces(size_t head, size_t open, size_t close, bool inNamespace) {
    const size_t kind = find(head, open, {"namespace", "class", "struct", "union", "enum"});
    const size_t parameters = find(head, open, {"("});
    if (kind != kNone && tokens_[kind].text == "namespace") {
      read(open + 1, close, true);
      return true;
    }
    if (head < open && tokens_[head].text == "extern" && open == head + 1) {  // extern "C"
      read(open + 1, close, inNamespace);
      return true;
    }
    if (kind != kNone && parameters == kNone && find(head, open, {"="}) == kNone) {
      takeType(kind, open, close, inNamespace);
      return true;
    }
    if (parameters == kNone || find(head, open, {"="}) != kNone || isMemberInitializer(head, open))
      return false;
    takeFunction(head, parameters, close);
    return true;
  }

  void takeType(size_t kind, size_t open, size_t close, bool inNamespace) {
    size_t at = kind + 1;
    if (isAnyOf(tokens_[at], {"class", "struct"})) ++at;  // enum class
    while (at < open && (tokens_[at].text == "[" || tokens_[at].text == "alignas"))
      at = matching(tokens_, tokens_[at].text == "[" ? at : at + 1) + 1;
    std::string name;
    while (at < open && (isName(tokens_[at]) || tokens_[at].text == "::") &&
           tokens_[at].text != "final")
      name += tokens_[at++].text;
    const bool plain = name.find(':') == std::string::npos && tokens_[at].text != "<";
    if (!name.empty())
      found_.types.push_back({name, tokens_[kind].line, open, close, inNamespace && plain});
    if (tokens_[kind].text != "enum") read(open + 1, close, false);
  }

  void takeFunction(size_t head, size_t parameters, size_t close) {
    const std::string name = parameters > head ? tokens_[parameters - 1].text : "";
    found_.functions.push_back(
        {name, tokens_[head].line, tokens_[close].line - tokens_[head].line + 1});
  }

  /// "{" of a_{1} in "Name(int a) : a_{1}, b_(2) {".
  bool isMemberInitializer(size_t head, size_t open) const {
    if (!isName(tokens_[open - 1]) && tokens_[open - 1].text != ">") return false;
    if (isAnyOf(tokens_[open - 1], {"const", "noexcept", "override", "final", "try", "mutable"}))
      return false;
    bool behindParameters = false;
    for (size_t i = head; i < open; ++i) {
      if (tokens_[i].text == "(") {
        i = matching(tokens_, i);
        behindParameters = true;
      } else if (tokens_[i].text == ":" && behindParameters) {
        return true;
      }
    }
    return false;
  }

  /// The first of `texts` outside of brackets. A function named by an operator has no "=".
  size_t find(size_t from, size_t to, std::initializer_list<const char*> texts) const {
    for (size_t i = from; i < to; ++i) {
      if (tokens_[i].text == "operator") {
        if (i + 2 < to && tokens_[i + 1].text == "(") i += 2;  // operator()
        for (++i; i < to && tokens_[i].text != "(";) ++i;
        if (i >= to) return kNone;
      }
      if (tokens_[i].text == "template" && i + 1 < to && tokens_[i + 1].text == "<") {
        i = angle(i + 1, to);
        continue;
      }
      if (isAnyOf(tokens_[i], texts)) return i;
      if (isAnyOf(tokens_[i], {"(", "[", "{"})) i = std::max(i, matching(tokens_, i));
    }
    return kNone;
  }
  /// The end of the list of template parameters that begins at `at`; ">>" closes two.
  size_t angle(size_t at, size_t to) const {
    int depth = 0;
    for (size_t i = at; i < to; ++i) {
      const std::string& text = tokens_[i].text;
      if (text == "(" || text == "{") i = matching(tokens_, i);
      depth += text == "<" ? 1 : text == ">" ? -1 : text == ">>" ? -2 : 0;
      if (depth <= 0) return i;
    }
    return at;
  }

  const std::vector<Token>& tokens_;
  Definitions found_;
};

/// Reads the members between the braces of one class.
class MemberReader {
 public:
  MemberReader(const std::vector<Token>& tokens, size_t open, size_t close)
      : tokens_(tokens), at_(open + 1), close_(close) {}

  Members run() {
    while (at_ < close_) declaration();
    return std::move(members_);
  }

 private:
  /// One declaration up to its ";" or to the end of a function's body.
  void declaration() {
    if (tokens_[at_].text == ";") {
      ++at_;
      return;
    }
    if (isAnyOf(tokens_[at_], {"public", "protected", "private"})) {
      at_ += 2;
      return;
    }
    const bool skipped =
        isAnyOf(tokens_[at_], {"using", "typedef", "friend", "static_assert", "enum"});
    const bool isStatic = isAnyOf(tokens_[at_], {"static"});
    const bool nested = isAnyOf(tokens_[at_], {"struct", "class", "union", "enum"});
    std::string name;
    bool isMethod = false, initialized = false;
    std::vector<std::string> fields;
    int angles = 0;
    for (; at_ < close_; ++at_) {
      const std::string& text = tokens_[at_].text;
      if (text == "<" && !initialized) ++angles;
      if (text == ">" && angles > 0) --angles;
      if (text == ">>" && angles > 0) angles -= std::min(angles, 2);
      if (text == ";") break;
      if (text == "(" && !initialized && angles == 0 && !isMethod) {
        isMethod = true;
        fields = {name};
      }
      if (text == "," && angles == 0 && !isMethod) {
        fields.push_back(name);
        initialized = false;
      }
      if (text == "=" || (text == "{" && !isMethod && !nested)) initialized = true;
      if (isName(tokens_[at_]) && !initialized && angles == 0) name = text;
      if (text == "operator") name = "operator";
      if (!isAnyOf(tokens_[at_], {"(", "[", "{"})) continue;
      const bool body = text == "{" && (isMethod || nested);
      at_ = std::max(at_, matching(tokens_, at_));
      if (body && isMethod && tokens_[std::min(at_ + 1, close_)].text != ";") break;
    }
    ++at_;
    if (skipped || nested || name.empty()) return;
    if (isMethod) {
      members_.methods.push_back(fields[0]);
    } else if (!isStatic) {
      fields.push_back(name);
      members_.fields.insert(members_.fields.end(), fields.begin(), fields.end());
    }
  }

  const std::vector<Token>& tokens_;
  size_t at_, close_;
  Members members_;
};

std::string folderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}
std::string stemOf(const std::string& path) {
  const size_t begin = path.rfind('/') + 1;
  return path.substr(begin, path.rfind('.') - begin);
}

/// True where `stem` has the words of `name`, all of them in a row.
bool hasWords(const std::string& stem, const std::string& name) {
  return ("_" + stem + "_").find("_" + name + "_") != std::string::npos;
}

}  // namespace

Definitions definitionsOf(const TokenizedFile& file) { return DefinitionReader(file).run(); }

Members membersOf(const TokenizedFile& file, const Definitions::Type& type) {
  return MemberReader(file.tokens, type.open, type.close).run();
}

bool isProduct(const std::string& path) {
  static constexpr std::array kFolders{"src/", "transports/", "collectives/", "parallel/",
                                       "include/"};
  return std::any_of(kFolders.begin(), kFolders.end(),
                     [&](const char* folder) { return path.starts_with(folder); });
}

std::vector<std::string> crowdedFolders(const std::vector<SourceFile>& files, size_t limit) {
  std::map<std::string, size_t> counts;
  for (const SourceFile& file : files) ++counts[folderOf(file.path)];
  std::vector<std::string> crowded;
  for (const auto& [folder, count] : counts)
    if (count > limit) crowded.push_back(folder + ": " + std::to_string(count));
  return crowded;
}

std::vector<std::string> duplicateTypes(const std::vector<TokenizedFile>& files) {
  std::map<std::string, std::set<std::string>> places;
  std::set<std::string> inHeaders;
  for (const TokenizedFile& file : files) {
    const std::string& path = file.file->path;
    if (!isProduct(path)) continue;
    for (const Definitions::Type& type : definitionsOf(file).types) {
      if (!type.atNamespaceScope) continue;
      places[type.name].insert(path);
      if (path.ends_with(".h") || path.ends_with(".cuh")) inHeaders.insert(type.name);
    }
  }
  std::vector<std::string> duplicates;
  for (const auto& [name, paths] : places) {
    if (paths.size() < 2 || !inHeaders.contains(name)) continue;
    std::string text = name + ":";
    for (const std::string& path : paths) text += " " + path;
    duplicates.push_back(text);
  }
  return duplicates;
}

TestedSources testedSources(const std::vector<SourceFile>& files) {
  std::map<std::string, std::vector<std::string>> tests;  // stems, without "_test", by folder
  const auto isSource = [](const std::string& path) {
    return path.ends_with(".cc") && isProduct(path) && !path.starts_with("include/");
  };
  for (const SourceFile& file : files) {
    const std::string& path = file.path;
    if (path.starts_with("tests/") && path.ends_with("_test.cc"))
      tests[folderOf(path)].push_back(stemOf(path).substr(0, stemOf(path).size() - 5));
    if (path.starts_with("tests/") && path.ends_with(".py") && stemOf(path).starts_with("test_"))
      tests[folderOf(path)].push_back(stemOf(path).substr(5));
  }
  TestedSources result;
  for (const SourceFile& file : files) {
    const std::string& path = file.path;
    if (!isSource(path)) continue;
    ++result.sources;
    const std::string own = folderOf(path), name = stemOf(path);
    const std::string folder = "tests/" + (own.starts_with("src/") ? own.substr(4) : own);
    const auto there = tests.find(folder);
    const bool byName = there != tests.end() &&
                        std::any_of(there->second.begin(), there->second.end(),
                                    [&](const std::string& test) { return hasWords(test, name); });
    const bool byFolder =
        tests.contains(folder + "/" + name) ||
        (there != tests.end() && there->second.size() <= TestedSources::kFewTests);
    if (!byName && !byFolder) result.untested.push_back(path);
  }
  return result;
}

}  // namespace tutti::repository
