// The manual pages: every command and every flag is in one, and groff has nothing against them.
// Arguments: the executable of tutti, the folder of the pages, and docs/reference/environment.md.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

std::string pagesPath, environmentPath;
const tests::Arguments commandLine{
    {"TUTTI", &tuttiPath}, {"FOLDER_OF_PAGES", &pagesPath}, {"ENVIRONMENT_PAGE", &environmentPath}};

std::filesystem::path pathOf(const std::string& name, int section) {
  return std::filesystem::path(pagesPath) / ("man" + std::to_string(section)) /
         (name + "." + std::to_string(section));
}

/// A page's text without roff's fonts and escapes; pages that stand for another are followed.
std::string pageOf(const std::string& name, int section) {
  std::string text = tests::contentsOf(pathOf(name, section));
  if (text.starts_with(".so "))
    text = tests::contentsOf(std::filesystem::path(pagesPath) / text.substr(4, text.size() - 5));
  text = std::regex_replace(text, std::regex("\\\\f[BIRP]"), "");
  return std::regex_replace(text, std::regex("\\\\([-&%])"), "$1");
}

/// The first words of the indented lines.
std::vector<std::string> commands() {
  std::vector<std::string> names;
  const std::regex entry("^  ([a-z-]+) .*");
  std::smatch found;
  for (const std::string& line : lines(runTutti({"--help"}).out))
    if (std::regex_match(line, found, entry)) names.push_back(found[1]);
  EXPECT_GE(names.size(), 5u);
  return names;
}

/// "-n" and "--ranks" of what `--help` says.
std::set<std::string> flagsOf(const std::string& help) {
  std::set<std::string> flags;
  const std::regex flag("(^|[ ,])(--?[A-Za-z][-A-Za-z_]*)");
  for (const std::string& line : lines(help)) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == 0 || begin > 8 || line[begin] != '-') continue;
    const std::string names = line.substr(0, line.find("  ", begin));
    for (std::sregex_iterator at(names.begin(), names.end(), flag), end; at != end; ++at)
      flags.insert((*at)[2]);
  }
  return flags;
}

/// Each flag has an entry of its own in the page.
void expectFlags(const std::string& page, const std::string& help, const std::string& name) {
  const std::set<std::string> flags = flagsOf(help);
  EXPECT_GE(flags.size(), 2u) << help;
  for (const std::string& flag : flags)
    EXPECT_TRUE(std::regex_search(page, std::regex("\n\\.TP\n[^\n]*" + flag + "[, \n]")))
        << name << " does not have " << flag;
}

TEST(ManPages, HaveEveryCommandAndEveryFlag) {
  const std::string overview = pageOf("tutti", 1);
  for (const std::string& command : commands()) {
    const std::string name = "tutti-" + command, page = pageOf(name, 1);
    ASSERT_NE(page, "") << name;
    EXPECT_TRUE(contains(page, ".SH NAME\n" + name + " - ")) << page;
    EXPECT_TRUE(contains(page, ".SH SYNOPSIS\ntutti " + command + " ")) << page;
    EXPECT_TRUE(contains(page, "\n.SH DESCRIPTION\n")) << page;
    expectFlags(page, runTutti({command, "--help"}).out, name);
    EXPECT_TRUE(contains(overview, "\n.TP\n" + name + "(1)\n")) << overview;
  }
}

TEST(ManPages, HaveTheProgramsWithNcclTestsNames) {
  for (const std::string& program : ncclPerfPrograms) {
    const std::string page = pageOf(program, 1);
    EXPECT_TRUE(contains(page, program + " [OPTIONS]\n")) << page;
    expectFlags(page, Command({besideTutti(program), "--help"}).wait().out, program);
  }
}

TEST(ManPages, HaveWhatIsOnlyWritten) {
  EXPECT_TRUE(contains(pageOf("tutti-run", 1), "\n.SH EXAMPLES\n"));
  EXPECT_TRUE(contains(pageOf("tutti-perf", 1), "\n.SH ARGUMENTS\n.TP\ncollective\n"));
  EXPECT_TRUE(contains(pageOf("tutti-perf", 1), "; 1 to 4096\n"));
  EXPECT_TRUE(contains(pageOf("tutti-explain", 1), "; required\n"));
}

TEST(ManPages, HaveEveryVariable) {
  const std::string page = pageOf("tutti-environment", 7);
  EXPECT_TRUE(contains(page, ".TP\nTUTTI_TIMEOUT_MS\ndeadline of one operation")) << page;
  EXPECT_FALSE(contains(page, "`") || contains(page, "](")) << page;
  const std::string source = tests::contentsOf(environmentPath);
  const std::regex variable("`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`");
  int seen = 0;
  for (std::sregex_iterator at(source.begin(), source.end(), variable), end; at != end;
       ++at, ++seen)
    EXPECT_TRUE(contains(page, (*at)[1])) << (*at)[1];
  EXPECT_GE(seen, 40);
}

TEST(ManPages, HaveNothingThatGroffWarnsOf) {
  if (Command({"sh", "-c", "command -v groff"}).wait().exitCode != 0)
    GTEST_SKIP() << "groff is not installed (Debian's package groff-base)";
  size_t pages = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(pagesPath)) {
    if (!file.is_regular_file() || file.path().filename() == "made") continue;
    ++pages;
    const Result run =
        Command({"groff", "-man", "-ww", "-z", "-I", pagesPath, "-s", file.path()}).wait();
    EXPECT_EQ(run.exitCode, 0) << file.path();
    EXPECT_EQ(run.out + run.err, "") << file.path();
  }
  EXPECT_GE(pages, commands().size() + ncclPerfPrograms.size() + 2);
}

}  // namespace
}  // namespace tutti::launcher
