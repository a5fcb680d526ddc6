// That docs/reference/commands.md and docs/explanation/architecture.md show what the commands
// print. Arguments: the executable of tutti, and the two pages.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::tools {
namespace {

using launcher::contains;
using launcher::lines;
using launcher::Result;
using launcher::runTutti;
using launcher::TemporaryFolder;

std::filesystem::path toolsPage, architecturePage;
const tests::Arguments commandLine{{"TUTTI", &launcher::tuttiPath},
                                   {"TOOLS_PAGE", &toolsPage},
                                   {"ARCHITECTURE_PAGE", &architecturePage}};

/// A block of a page: "$ tutti ...", and what the command prints.
struct Shown {
  std::vector<std::string> words;  // without "tutti"
  std::string command;
  std::vector<std::string> output;
};

std::vector<std::string> wordsOf(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::vector<Shown> blocksOf(const std::filesystem::path& page) {
  const std::string fence = "```", prompt = "$ tutti ";
  std::ifstream in(page);
  std::vector<Shown> blocks;
  std::string line;
  for (bool begins = false; std::getline(in, line); begins = line == fence) {
    if (!begins || !line.starts_with(prompt)) continue;
    Shown shown{.words = wordsOf(line.substr(prompt.size())), .command = line};
    while (std::getline(in, line) && line != fence) shown.output.push_back(line);
    blocks.push_back(std::move(shown));
    line.clear();
  }
  return blocks;
}

/// Tells of this machine, of measurements, or takes long (simulate_command_test compares that).
bool isOfOneMachine(const Shown& shown) {
  return shown.words[0] == "topo" || shown.words[0] == "doctor" || shown.words[0] == "tune" ||
         contains(shown.command, "--ranks 100000");
}

/// Lines that follow each other are shown so; "..." stands for any that are left out.
std::string differenceOf(const std::vector<std::string>& shown,
                         const std::vector<std::string>& printed) {
  size_t at = 0;
  bool gap = false;
  for (const std::string& line : shown) {
    if (line == "...") {
      gap = true;
      continue;
    }
    while (gap && at < printed.size() && printed[at] != line) ++at;
    if (at == printed.size() || printed[at] != line)
      return "shown: " + line + "\nprinted: " + (at < printed.size() ? printed[at] : "no more");
    ++at;
    gap = false;
  }
  return gap || at == printed.size() ? "" : "printed too: " + printed[at];
}

int compared(const std::filesystem::path& page) {
  int count = 0;
  for (const Shown& shown : blocksOf(page)) {
    if (isOfOneMachine(shown)) continue;
    const Result run = runTutti(shown.words);
    EXPECT_EQ(run.exitCode, 0) << shown.command << "\n" << run.err;
    EXPECT_EQ(differenceOf(shown.output, lines(run.out)), "") << shown.command;
    ++count;
  }
  return count;
}

TEST(Pages, OfToolsShowWhatTheyPrint) { EXPECT_EQ(compared(toolsPage), 2); }
TEST(Pages, OfArchitectureShowWhatIsChosen) { EXPECT_EQ(compared(architecturePage), 3); }

TEST(Pages, HaveThePictureOfAPlan) {
  const TemporaryFolder folder;
  const Result run = runTutti(
      {"plan", "ring", "all_reduce", "-n", "4", "--svg", folder.path().string() + "/plan.svg"});
  ASSERT_EQ(run.exitCode, 0) << run.err;
  std::ifstream in(toolsPage.parent_path() / "../images/plan.svg");
  EXPECT_EQ(folder.read("plan.svg"), std::string(std::istreambuf_iterator<char>(in), {}));
}

TEST(Pages, AreComparedLineByLine) {
  const std::vector<std::string> printed{"a", "b", "c", "d"};
  EXPECT_EQ(differenceOf({"a", "b", "c", "d"}, printed), "");
  EXPECT_EQ(differenceOf({"a", "...", "c", "d"}, printed), "");
  EXPECT_EQ(differenceOf({"...", "b", "..."}, printed), "");
  EXPECT_NE(differenceOf({"a", "b", "c"}, printed), "");
  EXPECT_NE(differenceOf({"a", "c", "d"}, printed), "");
  EXPECT_NE(differenceOf({"...", "b", "d"}, printed), "");
  EXPECT_NE(differenceOf({"a", "b", "c", "d", "e"}, printed), "");
  EXPECT_NE(differenceOf({"...", "x", "..."}, printed), "");
}

}  // namespace
}  // namespace tutti::tools
