// What no file of the repository may contain: paths of somebody's machine, and words that mark
// unfinished work; that one page names every environment variable; and that a source file includes
// its own header before all else. The words are put together here so that this file passes its own
// test.

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "tests/repository/source_tree.h"
#include "tests/support/test_main.h"

namespace tutti::repository {
namespace {

std::string sourceRoot;
const tests::Arguments commandLine{{"SOURCE_TREE", &sourceRoot}};

/// The reason why a line is refused, or nothing.
std::string objection(const std::string& line) {
  static const std::regex unfinished(std::string("\\b(TO") + "DO|FIX" + "ME|XX" + "X|TB" + "D)\\b");
  static const std::regex personal(std::string("(^|-I|[^A-Za-z0-9_.)}*])/(home|ro") +
                                   "ot|work|Users)/[A-Za-z0-9_.]");
  if (std::regex_search(line, unfinished)) return "unfinished";
  if (std::regex_search(line, personal)) return "the path of one machine";
  return "";
}

TEST(Text, OfTheRepositoryIsFinishedAndAtHomeAnywhere) {
  const auto files = readTree(sourceRoot);
  EXPECT_GE(files.size(), 20u) << sourceRoot;
  for (const SourceFile& file : files)
    for (size_t i = 0; i < file.lines.size(); ++i)
      if (const std::string why = objection(file.lines[i]); !why.empty())
        ADD_FAILURE() << file.path << ":" << i + 1 << ": " << why << ": " << file.lines[i];
  printf("%zu files read\n", files.size());
}

/// The first #include of a file, or nothing.
std::string firstInclude(const SourceFile& file) {
  for (const std::string& line : file.lines)
    if (line.starts_with("#include")) return line;
  return "";
}

TEST(Text, OfASourceFileIncludesItsOwnHeaderFirst) {
  const auto files = readTree(sourceRoot);
  std::set<std::string> paths;
  for (const SourceFile& file : files) paths.insert(file.path);
  int pairs = 0;
  for (const SourceFile& file : files) {
    // Programs of bench/jobs are built without the repository on their include path.
    if (!file.path.ends_with(".cc") || file.path.starts_with("bench/jobs/")) continue;
    std::string header = file.path.substr(0, file.path.size() - 2) + "h";
    if (!paths.contains(header)) continue;
    // So is the backend of PyTorch, on the machine of whoever uses it.
    if (const std::string shim = "src/python/tutti/torch/"; header.starts_with(shim))
      header = header.substr(shim.size());
    ++pairs;
    EXPECT_EQ(firstInclude(file), "#include \"" + header + "\"") << file.path;
  }
  EXPECT_GE(pairs, 200);
}

/// The environment variables of ours that a file names in quotes, as getenv() and its like do, or
/// between backticks, as the page does.
std::set<std::string> variables(const SourceFile& file, const std::string& quote) {
  static const std::regex name("TUTTI_[A-Z0-9_]+");
  std::set<std::string> found;
  for (const std::string& line : file.lines)
    for (std::sregex_iterator at(line.begin(), line.end(), name), end; at != end; ++at)
      if (at->prefix().str().ends_with(quote) && at->suffix().str().starts_with(quote))
        found.insert(at->str());
  return found;
}

TEST(Text, NamesEveryVariableOnOnePage) {
  std::set<std::string> page, code;
  for (const SourceFile& file : readTree(sourceRoot)) {
    if (file.path == "docs/reference/environment.md") page = variables(file, "`");
    const bool library = file.path.starts_with("src/") || file.path.starts_with("transports/") ||
                         file.path.starts_with("collectives/") ||
                         file.path.starts_with("parallel/") || file.path.starts_with("include/");
    if (library && (isCode(file.path) || file.path.ends_with(".py")))
      code.merge(variables(file, "\""));
  }
  EXPECT_GE(code.size(), 10u);
  EXPECT_EQ(page, code) << "docs/reference/environment.md, and the names in the sources";
}

TEST(Text, IsRefusedWhenItShouldBe) {
  EXPECT_NE(objection(std::string("// TO") + "DO: later"), "");
  EXPECT_NE(objection(std::string("FIX") + "ME"), "");
  EXPECT_NE(objection(std::string("open(\"/ho") + "me/ann/data\")"), "");
  EXPECT_NE(objection(std::string("/wo") + "rk/tree/file"), "");
  EXPECT_NE(objection(std::string("-I/ro") + "ot/include"), "");
}

TEST(Text, IsNotRefusedForItsSound) {
  EXPECT_EQ(objection("mastodon, todo, network/work/home"), "");
  EXPECT_EQ(objection("src/home/work.h"), "");
}

}  // namespace
}  // namespace tutti::repository
