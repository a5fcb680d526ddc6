// What no file of the repository may contain: paths of somebody's machine, and words that mark
// unfinished work; that one page and one list name every environment variable; that the build says
// which versions of packages it needs; and that a source file includes its own header before all
// else. The words are put together here so that this file passes its own test.

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <span>
#include <string_view>

#include "src/base/known_variables.h"
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

using Names = std::set<std::string>;

/// The environment variables of ours in a line, with what must stand before and behind them.
void addVariables(const std::string& line, const std::string& before, const std::string& behind,
                  Names& found) {
  static const std::regex name("TUTTI_[A-Z0-9_]+");
  for (std::sregex_iterator at(line.begin(), line.end(), name), end; at != end; ++at)
    if (at->prefix().str().ends_with(before) && at->suffix().str().starts_with(behind))
      found.insert(at->str());
}

/// Those that a file names in quotes, as getenv() and its like do, or between backticks, as the
/// page does.
Names variables(const SourceFile& file, const std::string& quote) {
  Names found;
  for (const std::string& line : file.lines) addVariables(line, quote, quote, found);
  return found;
}

constexpr const char* kList = "src/base/known_variables.cc";

bool isOfLibrary(const SourceFile& file) {
  for (const char* folder : {"src/", "transports/", "collectives/", "parallel/", "include/"})
    if (file.path.starts_with(folder) && file.path != kList)
      return isCode(file.path) || file.path.ends_with(".py");
  return false;
}

/// What the build, the tests, the benchmarks and the emulation take from the environment.
Names developersVariables(const SourceFile& file) {
  Names found;
  const bool isBuild = file.path.ends_with("CMakeLists.txt") || file.path.ends_with(".cmake");
  for (const std::string& line : file.lines) {
    if (isBuild && line.starts_with("option(")) addVariables(line, "option(", " ", found);
    if (isBuild && line.find(" CACHE ") != std::string::npos)
      addVariables(line, "set(", " ", found);
    if (file.path.starts_with("tests/") || file.path.starts_with("bench/"))
      addVariables(line, "getenv(\"", "\"", found);
  }
  if (file.path == "tests/emulation/environment.cc") found.merge(variables(file, "\""));
  return found;
}

Names namesOf(std::span<const std::string_view> list) { return {list.begin(), list.end()}; }

TEST(Text, NamesEveryVariableOnOnePage) {
  Names page, code;
  for (const SourceFile& file : readTree(sourceRoot)) {
    if (file.path == "docs/reference/environment.md") page = variables(file, "`");
    if (isOfLibrary(file)) code.merge(variables(file, "\""));
  }
  EXPECT_GE(code.size(), 10u);
  EXPECT_EQ(page, code) << "docs/reference/environment.md, and the names in the sources";
  EXPECT_EQ(page, namesOf(base::knownVariables()))
      << "docs/reference/environment.md, and " << kList;
}

TEST(Text, KnowsTheVariablesOfDevelopers) {
  Names read;
  for (const SourceFile& file : readTree(sourceRoot)) read.merge(developersVariables(file));
  for (const std::string_view known : base::knownVariables()) read.erase(std::string(known));
  EXPECT_GE(read.size(), 10u);
  EXPECT_EQ(read, namesOf(base::developersVariables())) << "what is read, and " << kList;
}

/// Whether a line of CMake looks for a package of libraries and says no least version of it.
bool lacksVersion(const std::string& line) {
  static const std::regex package("find_package\\((\\w+)([^)]*)"), versioned("^ [0-9.]+ .*"),
      modules("pkg_check_modules\\([^)]*\\)");
  std::smatch found;
  if (std::regex_search(line, found, modules)) return found.str().find(">=") == std::string::npos;
  if (!std::regex_search(line, found, package)) return false;
  // Of CMake itself, and toolchains that the build looks at more closely.
  const Names without{"Threads", "PkgConfig", "CUDAToolkit", "Python3"};
  return !without.contains(found[1]) && !std::regex_match(found[2].str(), versioned);
}

TEST(Text, NamesTheLeastVersionOfEveryPackage) {
  int packages = 0;
  for (const SourceFile& file : readTree(sourceRoot)) {
    if (!file.path.ends_with("CMakeLists.txt") && !file.path.ends_with(".cmake")) continue;
    for (const std::string& line : file.lines) {
      packages += line.find("find_package(") != std::string::npos;
      EXPECT_FALSE(lacksVersion(line)) << file.path << ": " << line;
    }
  }
  EXPECT_GE(packages, 20);
  for (const char* line : {"find_package(CLI11 REQUIRED)", "find_package(benchmark QUIET)",
                           "pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)"})
    EXPECT_TRUE(lacksVersion(line)) << line;
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
