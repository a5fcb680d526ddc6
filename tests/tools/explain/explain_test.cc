// `tutti explain` as people run it: what it predicts, chooses and measures.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "src/base/check.h"
#include "src/base/cores.h"
#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

const tests::Arguments commandLine{{"TUTTI", &tuttiPath}};

/// What stands before an algorithm's name in the table: the mark and the numbers.
std::vector<std::string> rowOf(const std::string& out, const std::string& algorithm) {
  for (const std::string& line : lines(out))
    if (line.ends_with("  " + algorithm)) {
      std::istringstream in(line.substr(0, line.size() - algorithm.size()));
      std::vector<std::string> words;
      for (std::string word; in >> word;) words.push_back(word);
      return words;
    }
  ADD_FAILURE() << "no line of " << algorithm << " in\n" << out;
  return {};
}

TEST(ExplainCommand, ShowsPredictionsTheChoiceAndItsLimits) {
  const Result run = runTutti(
      {"explain", "all_reduce", "--count", "1M", "--type", "float32", "-n", "8", "--cores", "2"});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_TRUE(contains(lines(run.out)[0], "8 ranks on 1 host, 2 cores")) << run.out;
  EXPECT_TRUE(lines(run.out)[1].starts_with("all_reduce of 1048576 float32, sum: ")) << run.out;
  double least = 1e30, chosen = 0;
  for (const char* const row : {"ring, 1 channel", "recursive, 1 channel", "one_shot, 1 channel",
                                "two_shot, 1 channel", "double_tree, 2 channels"}) {
    const auto words = rowOf(run.out, row);
    const bool marked = words.at(0) == "*";
    ASSERT_EQ(words.size(), marked ? 6U : 5U) << run.out;
    const double predicted = std::stod(words[marked ? 1 : 0]);
    if (marked) chosen = predicted;
    least = std::min(least, predicted);
  }
  EXPECT_GT(chosen, 0) << run.out;
  EXPECT_LE(chosen, 1.02 * least) << run.out;
  // A ring of 8 sends 14 messages one after another, and 7/4 of a block from each rank.
  const auto ring = rowOf(run.out, "ring, 1 channel");
  EXPECT_EQ(ring.at(ring.size() - 3), "14");
  EXPECT_EQ(ring.at(ring.size() - 2) + ring.back(), "7MiB");
  EXPECT_TRUE(contains(run.out, "\nBlocks of\n  up to ")) << run.out;
  EXPECT_TRUE(contains(run.out, "\n  beyond ")) << run.out;
}

TEST(ExplainCommand, IsAboutThisHostWhereNothingElseIsSaid) {
  const auto where = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"explain", "all_reduce", "--count", "1K"};
    words.insert(words.end(), more.begin(), more.end());
    return lines(runTutti(words).out).at(0);
  };
  const int cores = base::usableCores();
  const auto coresText = [](int count) {
    return base::message(count, count == 1 ? " core" : " cores");
  };
  const std::string more = std::to_string(cores + 1);
  const std::string here = where({"-n", more});
  EXPECT_TRUE(contains(here, more + " ranks on 1 host, " + coresText(cores))) << here;
  EXPECT_TRUE(here.ends_with(", oversubscribed")) << here;
  const std::string elsewhere = where({"-n", more, "--hosts", more});
  EXPECT_TRUE(contains(elsewhere, " on 1 host, " + coresText(cores + 1))) << elsewhere;
  EXPECT_FALSE(contains(elsewhere, "oversubscribed")) << elsewhere;
  EXPECT_TRUE(contains(where({"-n", more, "--cores", "1"}), " on 1 host, 1 core")) << here;
}

TEST(ExplainCommand, TakesTheConstantsThatItIsGiven) {
  const TemporaryFolder folder;
  const std::string file = folder.path().string() + "/tuning";
  std::ofstream(file) << "messageMicroseconds = 1000\n";
  const std::vector<std::string> words{"explain", "all_reduce", "--count", "1", "-n", "2"};
  const auto predicted = [&](const Result& run) {
    EXPECT_EQ(run.exitCode, 0) << run.err;
    std::smatch found;
    const std::string text = run.out;
    EXPECT_TRUE(std::regex_search(text, found, std::regex("predicted ([0-9.]+) us"))) << text;
    return found.size() > 1 ? std::stod(found[1]) : 0;
  };
  EXPECT_LT(predicted(runTutti(words)), 1000);
  auto given = words;
  given.insert(given.end(), {"--tuning", file});
  EXPECT_GE(predicted(runTutti(given)), 1000);
  std::vector<std::string> command{tuttiPath};
  command.insert(command.end(), words.begin(), words.end());
  EXPECT_GE(predicted(Command(command, {}, {"TUTTI_TUNING=" + file}).wait()), 1000);
}

TEST(ExplainCommand, MeasuresWhatItPredicts) {
  const Result run = runTutti({"explain", "broadcast", "--count", "1K", "-n", "2", "--measure"});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  for (const std::string name : {"ring", "recursive", "one_shot"}) {
    auto row = rowOf(run.out, name + ", 1 channel");
    if (row.at(0) == "*") row.erase(row.begin());
    ASSERT_GE(row.size(), 6U) << run.out;
    EXPECT_GT(std::stod(row[2]), 0) << run.out;
  }
  EXPECT_TRUE(contains(run.out, "As it is called, without forcing anything: ")) << run.out;
}

TEST(ExplainCommand, MeasuresWhatDeterministicModeMayTake) {
  const Result run = runTutti({"explain", "all_reduce", "--count", "1K", "-n", "3", "--measure",
                               "--deterministic", "--op", "premulsum"});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  rowOf(run.out, "one_shot, 1 channel");
  EXPECT_FALSE(contains(run.out, "ring, ")) << run.out;
}

// In windows one_shot, ring, recursive, two_shot, double_tree, mapped and what is chosen have two
// buffers each on each of two ranks.
TEST(ExplainCommand, NamesTheMemoryThatMeasuringWants) {
  const Result run = runTutti({"explain", "all_reduce", "--count", "256G", "-n", "2", "--measure"});
  EXPECT_EQ(run.exitCode, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(contains(run.err,
                       "buffers for all_reduce of 1099511627776 bytes by 7 algorithms: 2 ranks "
                       "need together 30786325577728 bytes, and "))
      << run.err;
}

TEST(ExplainCommand, RefusesByName) {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), "explain");
    const Result run = runTutti(words);
    EXPECT_EQ(run.exitCode, 2);
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_TRUE(
      contains(refusal({"all_produce", "-n", "2"}), "there is no collective 'all_produce'"));
  EXPECT_TRUE(contains(refusal({"all_reduce"}), "--ranks"));
  EXPECT_TRUE(contains(refusal({"all_reduce", "-n", "2", "--count", "many"}), "--count many"));
  EXPECT_TRUE(contains(refusal({"all_reduce", "-n", "2", "--count", "9999G"}), "--count 9999G"));
  EXPECT_TRUE(contains(refusal({"all_reduce", "-n", "2", "--type", "int3"}), "--type int3"));
  EXPECT_TRUE(contains(refusal({"all_reduce", "-n", "2", "--op", "bit_and"}), "--op bit_and"));
  EXPECT_TRUE(contains(refusal({"reduce", "-n", "2", "--root", "2"}), "--root 2"));
  EXPECT_TRUE(contains(refusal({"all_reduce", "-n", "4", "--hosts", "2x4"}), "--hosts 2x4"));
  EXPECT_TRUE(
      contains(refusal({"all_reduce", "-n", "4", "--hosts", "2x2", "--measure"}), "--hosts"));
  EXPECT_TRUE(contains(refusal({"barrier", "-n", "4", "--measure"}), "--measure"));
  const Result forced = Command({tuttiPath, "explain", "all_reduce", "-n", "2", "--measure"}, {},
                                {"TUTTI_ALGORITHM=ring"})
                            .wait();
  EXPECT_NE(forced.exitCode, 0);
  EXPECT_TRUE(contains(forced.err, "TUTTI_ALGORITHM=ring forces")) << forced.err;
  const Result filed = Command({tuttiPath, "explain", "all_reduce", "-n", "2", "--measure"}, {},
                               {"TUTTI_ALGORITHM_FILE=/a"})
                           .wait();
  EXPECT_NE(filed.exitCode, 0);
  EXPECT_TRUE(contains(filed.err, "TUTTI_ALGORITHM_FILE=/a takes the place")) << filed.err;
  const Result missing =
      runTutti({"explain", "all_reduce", "-n", "2", "--tuning", "/nowhere/tuning"});
  EXPECT_EQ(missing.exitCode, 1);
  EXPECT_TRUE(contains(missing.err, "the tuning file /nowhere/tuning is not there")) << missing.err;
}

TEST(ExplainCommand, NamesThePlanOfAFile) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "plan.json";
  std::ofstream(file)
      << runTutti({"plan", "double_tree", "all_reduce", "-n", "4", "--json", "-"}).out;
  const auto explained = [&](const std::string& collective) {
    const Result run = Command({tuttiPath, "explain", collective, "-n", "4", "--count", "1K"}, {},
                               {"TUTTI_ALGORITHM_FILE=" + file})
                           .wait();
    EXPECT_EQ(run.exitCode, 0) << run.err;
    return run.out;
  };
  const std::string taken = explained("all_reduce"), left = explained("all_gather");
  EXPECT_TRUE(contains(taken, ": file, the plan of " + file + ", predicted ")) << taken;
  EXPECT_TRUE(contains(taken, "  file, 2 channels\n")) << taken;
  EXPECT_TRUE(contains(left, "; the plan of " + file + " is for all_reduce\n")) << left;
  std::ofstream(file) << "{}";
  const Result broken =
      Command({tuttiPath, "explain", "all_reduce", "-n", "4"}, {}, {"TUTTI_ALGORITHM_FILE=" + file})
          .wait();
  EXPECT_EQ(broken.exitCode, 1);
  EXPECT_TRUE(contains(broken.err, "the plan has no field \"version\"")) << broken.err;
}

}  // namespace
}  // namespace tutti::launcher
