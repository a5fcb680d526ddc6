// Every function of include/tutti/cuda/ptx is called by a conformance test, so that none is added
// without one. Argument: the source tree.

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <regex>
#include <set>

#include "tests/repository/tokens.h"
#include "tests/support/test_main.h"

namespace tutti::repository {
namespace {

std::string sourceRoot;
const tests::Arguments commandLine{{"SOURCE_TREE", &sourceRoot}};

/// A macro that declares functions; parameters are part of their names, between ##.
struct Macro {
  std::vector<std::string> parameters, functions;
};

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at; (at = text.find(separator, begin)) != std::string::npos;
       begin = at + separator.size())
    parts.push_back(trimmed(text.substr(begin, at - begin)));
  parts.push_back(trimmed(text.substr(begin)));
  return parts;
}

/// Reads one header. What it cannot read is in `objections`.
class Header {
 public:
  explicit Header(const SourceFile& file) : path_(file.path) {
    std::string whole;  // a line for each macro and directive
    for (const std::string& line : file.lines) {
      whole += line.substr(0, line.find("//"));
      if (whole.ends_with('\\'))
        whole.back() = ' ';
      else
        whole += '\n';
    }
    std::string code;
    for (const std::string& line : split(whole, "\n")) {
      if (line.starts_with('#'))
        readDirective(line);
      else
        code += line + "\n";
    }
    for (const std::string& function : functionsIn(code)) functions.insert(function);
    for (const auto& [name, variants] : macros_) readCalls(name, variants, code);
  }

  std::set<std::string> functions;
  std::vector<std::string> objections;

 private:
  /// The functions that it declares. Those that are static are parts of others.
  std::vector<std::string> functionsIn(const std::string& code) {
    static const std::regex declarator(
        R"(\bTUTTI_(PTX|DEVICE)\s+(static\s+)?\w+\s*[*&]?\s+([\w#]+)\s*\()");
    static const std::regex word(R"(\bTUTTI_(PTX|DEVICE)\b)");
    std::vector<std::string> found;
    std::ptrdiff_t declared = 0;
    for (std::sregex_iterator at(code.begin(), code.end(), declarator), end; at != end; ++at) {
      ++declared;
      if (!(*at)[2].matched) found.push_back((*at)[3]);
    }
    const auto words = std::distance(std::sregex_iterator(code.begin(), code.end(), word), {});
    if (words != declared)
      objections.push_back(path_ + ": " + std::to_string(words - declared) +
                           " functions are declared in a way that is not understood here");
    return found;
  }

  void readDirective(const std::string& line) {
    static const std::regex define(R"(#define (\w+)\(([\w, ]*)\)(.*))");
    std::smatch parts;
    if (!std::regex_match(line, parts, define)) return;
    const auto declared = functionsIn(parts[3]);
    if (!declared.empty()) macros_[parts[1]].push_back({split(parts[2], ","), declared});
  }

  void readCalls(const std::string& name, const std::vector<Macro>& variants,
                 const std::string& code) {
    const std::regex call("\\b" + name + R"(\(([^()]*)\))");
    int calls = 0;
    for (std::sregex_iterator at(code.begin(), code.end(), call), end; at != end; ++at)
      for (const Macro& macro : variants) {
        const auto arguments = split((*at)[1], ",");
        if (arguments.size() != macro.parameters.size()) continue;
        ++calls;
        for (const std::string& function : macro.functions)
          functions.insert(expanded(function, macro.parameters, arguments));
      }
    if (calls == 0) objections.push_back(path_ + ": " + name + " is never called");
  }

  static std::string expanded(const std::string& function,
                              const std::vector<std::string>& parameters,
                              const std::vector<std::string>& arguments) {
    std::string name;
    for (const std::string& part : split(function, "##")) {
      const auto at = std::find(parameters.begin(), parameters.end(), part);
      name += at == parameters.end() ? part : arguments[size_t(at - parameters.begin())];
    }
    return name;
  }

  std::string path_;
  std::map<std::string, std::vector<Macro>> macros_;
};

/// What is called as ptx::NAME.
std::set<std::string> calledIn(const SourceFile& file) {
  std::set<std::string> names;
  const TokenizedFile source = tokenize(file);
  for (size_t i = 2; i < source.tokens.size(); ++i)
    if (source.is(i - 2, "ptx") && source.is(i - 1, "::")) names.insert(source.tokens[i].text);
  return names;
}

TEST(Wrappers, AreAllCalledByConformanceTests) {
  std::set<std::string> called;
  std::map<std::string, std::string> headerOf;
  for (const SourceFile& file : readTree(sourceRoot)) {
    if (file.path.starts_with("tests/emulation/conformance/")) called.merge(calledIn(file));
    if (!file.path.starts_with("include/tutti/cuda/ptx/")) continue;
    const Header header(file);
    for (const std::string& objection : header.objections) ADD_FAILURE() << objection;
    for (const std::string& function : header.functions) headerOf[function] = file.path;
  }
  EXPECT_GE(headerOf.size(), 120u) << sourceRoot;
  for (const auto& [function, header] : headerOf)
    EXPECT_TRUE(called.contains(function))
        << header << ": no test of tests/emulation/conformance calls ptx::" << function;
  printf("%zu functions\n", headerOf.size());
}

Header headerOf(const std::vector<std::string>& lines) { return Header({"a.cuh", lines}); }

TEST(Wrappers, AreFoundHoweverTheyAreDeclared) {
  const Header header = headerOf(
      {"TUTTI_PTX uint64_t* plain(int x)", "    TUTTI_ASM(\"a, b\");", "// TUTTI_PTX void comment(",
       "template <int k>", "TUTTI_DEVICE void", "spread(", "#define PAIR(kind, name) \\",
       "  TUTTI_PTX void name(int x) \\", "  TUTTI_PTX void load##name##kind(int x)",
       "PAIR(32, first);", "PAIR( , second)", "  TUTTI_DEVICE static void part(int x)"});
  EXPECT_EQ(header.functions, (std::set<std::string>{"plain", "spread", "first", "loadfirst32",
                                                     "second", "loadsecond"}));
  EXPECT_TRUE(header.objections.empty());
}

TEST(Wrappers, ThatAreNotUnderstoodAreRefused) {
  EXPECT_EQ(headerOf({"TUTTI_PTX auto odd = [](int x) {};"}).objections.size(), 1u);
  EXPECT_EQ(headerOf({"#define NEVER(name) TUTTI_PTX void name(int x)"}).objections.size(), 1u);
}

TEST(Wrappers, AreNotCalledByComments) {
  EXPECT_EQ(calledIn({"a.cc", {"ptx::used(1);  // ptx::unused(2)", "other::third();"}}),
            std::set<std::string>{"used"});
}

}  // namespace
}  // namespace tutti::repository
