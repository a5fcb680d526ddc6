// The repository keeps to the limits of its shape, and each figure counts what it should. The test
// prints all figures with their limits. Argument: the source tree.

#include "tests/repository/figures.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/test_main.h"

namespace tutti::repository {
namespace {

std::string sourceRoot;
const tests::Arguments commandLine{{"SOURCE_TREE", &sourceRoot}};

enum class Limit { AtMost, AtLeast };

struct Figure {
  const char* name;
  size_t value;
  Limit limit;
  size_t bound;
  std::vector<std::string> offenders = {};  ///< what counts, or what makes it so large

  bool holds() const { return limit == Limit::AtMost ? value <= bound : value >= bound; }
};

/// The tree, read once.
struct Tree {
  std::vector<SourceFile> files;
  std::vector<TokenizedFile> code;

  explicit Tree(std::vector<SourceFile> all) : files(std::move(all)) {
    for (const SourceFile& file : files)
      if (isCode(file.path) || file.path.ends_with(".c")) code.push_back(tokenize(file));
  }
};

bool hasToken(const TokenizedFile& file, const std::string& text) {
  return std::any_of(file.tokens.begin(), file.tokens.end(),
                     [&](const Token& token) { return token.text == text; });
}

bool hasMain(const TokenizedFile& file) {
  for (size_t i = 0; i < file.tokens.size(); ++i)
    if (file.is(i, "int") && file.is(i + 1, "main") && file.is(i + 2, "(")) return true;
  return false;
}

Members membersOfImpl(const Tree& tree) {
  for (const TokenizedFile& file : tree.code) {
    if (!file.file->path.starts_with("src/communicator/")) continue;
    for (const Definitions::Type& type : definitionsOf(file).types)
      if (type.name == "Communicator::Impl") return membersOf(file, type);
  }
  return {};
}

/// Functions of src with more than `limit` lines, and the length of the longest.
std::vector<std::string> longFunctions(const Tree& tree, size_t limit, size_t* longest) {
  std::vector<std::string> found;
  for (const TokenizedFile& file : tree.code) {
    if (!file.file->path.starts_with("src/")) continue;
    for (const Definitions::Function& function : definitionsOf(file).functions) {
      *longest = std::max(*longest, function.lineCount);
      if (function.lineCount > limit)
        found.push_back(file.file->path + ":" + std::to_string(function.line) + " " +
                        function.name + "(): " + std::to_string(function.lineCount));
    }
  }
  return found;
}

/// Paths of the code that `counts` is true of.
template <class Condition>
std::vector<std::string> pathsOf(const Tree& tree, Condition counts) {
  std::vector<std::string> paths;
  for (const TokenizedFile& file : tree.code)
    if (counts(file)) paths.push_back(file.file->path);
  return paths;
}

/// Structs of src with the buffers and the scalar of a collective call.
std::vector<std::string> callStructs(const Tree& tree) {
  std::vector<std::string> found;
  for (const TokenizedFile& file : tree.code) {
    if (!file.file->path.starts_with("src/")) continue;
    for (const Definitions::Type& type : definitionsOf(file).types) {
      const std::vector<std::string> fields = membersOf(file, type).fields;
      const auto has = [&](const char* name) {
        return std::find(fields.begin(), fields.end(), name) != fields.end();
      };
      if (has("in") && has("out") && has("scalarAt"))
        found.push_back(file.file->path + " " + type.name);
    }
  }
  return found;
}

Figure count(const char* name, std::vector<std::string> offenders, size_t bound) {
  return {name, offenders.size(), Limit::AtMost, bound, std::move(offenders)};
}

std::vector<Figure> figuresOf(const Tree& tree) {
  const Members impl = membersOfImpl(tree);
  size_t longest = 0;
  const auto tooLong = longFunctions(tree, 60, &longest);
  const TestedSources tested = testedSources(tree.files);
  const size_t percent =
      (tested.sources - tested.untested.size()) * 100 / std::max<size_t>(tested.sources, 1);
  return {
      count("fields of Communicator::Impl", impl.fields, 13),
      count("methods of Communicator::Impl", impl.methods, 20),
      {"lines of the longest function of src", longest, Limit::AtMost, 60, tooLong},
      count("structs that hold a call's fields", callStructs(tree), 1),
      count("product files that name MutationPoint",
            pathsOf(tree,
                    [](const TokenizedFile& file) {
                      return isProduct(file.file->path) && hasToken(file, "MutationPoint");
                    }),
            0),
      count("folders with more than 50 files", crowdedFolders(tree.files, 50), 0),
      count("files of tests/ with a main()",
            pathsOf(tree,
                    [](const TokenizedFile& file) {
                      return file.file->path.starts_with("tests/") && hasMain(file);
                    }),
            30),
      {"percent of sources with a test", percent, Limit::AtLeast, 80, tested.untested},
      count("files of code over 600 lines",
            pathsOf(tree, [](const TokenizedFile& file) { return file.file->lines.size() > 600; }),
            0),
      count("type names that two files define", duplicateTypes(tree.code), 0),
  };
}

void print(const Figure& figure) {
  printf("%5zu  %-40s %s %zu\n", figure.value, figure.name,
         figure.limit == Limit::AtMost ? "at most" : "at least", figure.bound);
  if (figure.holds()) return;
  for (const std::string& offender : figure.offenders) printf("         %s\n", offender.c_str());
}

TEST(Figures, OfTheRepositoryKeepToTheirLimits) {
  const Tree tree(readTree(sourceRoot));
  EXPECT_GE(tree.code.size(), 20u) << sourceRoot;
  EXPECT_FALSE(membersOfImpl(tree).fields.empty()) << "Communicator::Impl is not found";
  EXPECT_EQ(callStructs(tree).size(), 1u) << "executor::CollectiveCall is not found, or has a copy";
  for (const Figure& figure : figuresOf(tree)) {
    print(figure);
    EXPECT_TRUE(figure.holds()) << figure.name << ": " << figure.value << ", limit "
                                << figure.bound;
  }
}

SourceFile planted(const std::string& path, const std::string& text) {
  SourceFile file{path, {}};
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) file.lines.push_back(line);
  return file;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

Definitions definitions(const std::string& text) {
  const SourceFile file = planted("src/a.h", text);
  return definitionsOf(tokenize(file));
}
std::string functions(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& f : definitions(text).functions)
    names.push_back(f.name + "=" + std::to_string(f.lineCount));
  return listed(names);
}

TEST(Figures, CountTheLinesOfFunctions) {
  EXPECT_EQ(functions("int f(int a) {\n  if (a) {\n  }\n}\nint g();\n"), "f=4");
  EXPECT_EQ(functions("template <class T>\nT f(T a = {})\n{\n}\n"), "f=4");
  EXPECT_EQ(functions("namespace a::b {\nstruct A {\n  A() : x_{1}, y_(2) {\n  }\n"
                      "  int x_{0}, y_;\n  int f() const { return 1; }\n};\n}\n"),
            "A=2 f=1");
  EXPECT_EQ(functions("int v[] = {1, f(2)};\nauto l = [](int a) {\n};\nauto f() -> int {\n}\n"),
            "f=2");
  EXPECT_EQ(
      functions(
          "bool operator==(A, A) {\n}\nint operator()(int a) {\n}\noperator bool() const {}\n"),
      "===2 )=2 bool=1");
  EXPECT_EQ(functions("enum class A { B };\nextern \"C\" {\nint f(void) {\n}\n}\n"), "f=2");
}

TEST(Figures, CountFieldsAndMethods) {
  const SourceFile file = planted(
      "src/a.h",
      "struct A::Impl final : B {\n  using C = int;\n  enum class D { E, F };\n  struct G { int h; "
      "};\n"
      "  Impl(int a);\n  ~Impl() override;\n  int i() const { return 1; }\n"
      "  std::function<void(int)> f1 = [](int a) { return a; };\n  int f2 = 0, f3{1}, f4;\n"
      "  std::map<int, int> f5;\n private:\n  bool j(int k = 2);\n  std::array<int, 3> f6{};\n"
      "  static int l;\n  static int k();\n  friend class M;\n  std::vector<std::pair<int, int>> "
      "f7;\n};\n"
      "struct N { int o; };\n");
  const TokenizedFile tokens = tokenize(file);
  const Definitions found = definitionsOf(tokens);
  ASSERT_FALSE(found.types.empty());
  EXPECT_EQ(found.types[0].name, "A::Impl");
  const Members members = membersOf(tokens, found.types[0]);
  EXPECT_EQ(listed(members.fields), "f1 f2 f3 f4 f5 f6 f7");
  EXPECT_EQ(listed(members.methods), "Impl Impl i j k");
}

std::vector<std::string> duplicates(const std::vector<SourceFile>& files) {
  std::vector<TokenizedFile> code;
  for (const SourceFile& file : files) code.push_back(tokenize(file));
  return duplicateTypes(code);
}

TEST(Figures, FindTypesThatAreDefinedTwice) {
  const auto a = planted("src/a.h", "namespace a {\nstruct A {};\n}\n");
  EXPECT_EQ(
      duplicates({a, planted("parallel/b.cc", "namespace {\nenum class A : int { B };\n}\n")}),
      std::vector<std::string>{"A: parallel/b.cc src/a.h"});
  for (const char* text : {"struct A;\n", "struct B { struct A {}; };\n", "struct B::A {};\n",
                           "template <>\nstruct A<int> {};\n", "void f() { struct A {}; }\n"})
    EXPECT_EQ(duplicates({a, planted("src/b.h", text)}), std::vector<std::string>{}) << text;
  EXPECT_EQ(duplicates({a, planted("tests/b.h", "struct A {};\n")}), std::vector<std::string>{});
  EXPECT_EQ(duplicates({planted("src/a.cc", "struct A {};"), planted("src/b.cc", "struct A {};")}),
            std::vector<std::string>{})
      << "of sources alone";
}

TEST(Figures, FindCrowdedFolders) {
  const std::vector<SourceFile> files = {{"a/b", {}}, {"a/c", {}}, {"a/d/e", {}}, {"f", {}}};
  EXPECT_EQ(crowdedFolders(files, 1), std::vector<std::string>{"a: 2"});
  EXPECT_EQ(crowdedFolders(files, 2), std::vector<std::string>{});
}

/// Of `paths`, where tests/a has many other tests.
std::vector<std::string> untested(const std::vector<std::string>& paths) {
  std::vector<SourceFile> files;
  for (const std::string& path : paths) files.push_back({path, {}});
  for (size_t i = 0; i < TestedSources::kFewTests; ++i)
    files.push_back({"tests/a/x" + std::to_string(i) + "_test.cc", {}});
  return testedSources(files).untested;
}

TEST(Figures, FindTheTestOfASource) {
  const std::vector<std::string> all, none{"src/a/b.cc"};
  EXPECT_EQ(untested({"src/a/b.cc", "tests/a/b_test.cc"}), all);
  EXPECT_EQ(untested({"src/a/b.cc", "tests/a/long_b_c_test.cc"}), all);
  EXPECT_EQ(untested({"src/a/b.cc", "tests/a/y_test.cc", "tests/a/b/c_test.cc"}), all);
  EXPECT_EQ(untested({"src/few/b.cc", "tests/few/c_test.cc"}), all);
  EXPECT_EQ(untested({"parallel/few/b.cc", "tests/parallel/few/b_test.cc"}), all);
  EXPECT_EQ(untested({"src/python/b.cc", "tests/python/test_b.py"}), all);
  EXPECT_EQ(untested({"src/a/b.cc"}), all) << "twelve tests are few";
  EXPECT_EQ(untested({"src/a/b.cc", "tests/a/bc_test.cc"}), none);
  EXPECT_EQ(untested({"src/a/b.cc", "tests/a/y_test.cc", "tests/c/b_test.cc"}), none);
  EXPECT_EQ(untested({"src/a/b.cc", "tests/a/y_test.cc", "tests/a/b.cc"}), none);
  EXPECT_EQ(untested({"src/c/b.cc", "tests/c/b.cc"}), std::vector<std::string>{"src/c/b.cc"});
  EXPECT_EQ(untested({"src/few/b.cc", "tests/few/ranks.py"}),
            std::vector<std::string>{"src/few/b.cc"});
  EXPECT_EQ(untested({"src/few/b.cc"}), std::vector<std::string>{"src/few/b.cc"});
}

TEST(Figures, FindMainAndNames) {
  const SourceFile with = planted("tests/a.cc", "int main(int c, char** v) {}\n"),
                   without =
                       planted("tests/a.cc", "// int main()\nconst char* a = \"int main(\";\n");
  EXPECT_TRUE(hasMain(tokenize(with)));
  EXPECT_FALSE(hasMain(tokenize(without)));
  EXPECT_TRUE(hasToken(tokenize(with), "main"));
  EXPECT_FALSE(hasToken(tokenize(without), "main"));
}

TEST(Figures, HoldUpToTheirLimits) {
  Figure figure{"x", 3, Limit::AtMost, 3};
  EXPECT_TRUE(figure.holds());
  figure.value = 4;
  EXPECT_FALSE(figure.holds());
  figure.limit = Limit::AtLeast;
  EXPECT_TRUE(figure.holds());
  figure.value = 2;
  EXPECT_FALSE(figure.holds());
}

}  // namespace
}  // namespace tutti::repository
