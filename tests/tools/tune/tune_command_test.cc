// `tutti tune` as people run it, and that a tuning file reaches the ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "src/topology/tuning.h"
#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

const tests::Arguments commandLine{{"TUTTI", &tuttiPath}};

using Json = nlohmann::json;

TEST(TuneCommand, WritesConstantsAndMeasurements) {
  const TemporaryFolder folder;
  const std::string file = folder.path().string() + "/tuning",
                    record = folder.path().string() + "/record";
  const Result run = runTutti(
      {"tune", "-n", "3", "--turns", "1", "--blocks", "8,4K,12K", "-o", file, "--record", record});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_NO_THROW(topology::Tuning::read(file));
  int calls = 0, ofTwo = 0;
  double asking = 0;  // at most
  std::map<uint64_t, int> sizes;
  for (const std::string& line : lines(folder.read("record"))) {
    const Json call = Json::parse(line);
    ++calls;
    ofTwo += call["ranks"] == 2;
    ASSERT_GE(call["microseconds"].size(), call["windows"] ? 2U : 1U) << line;
    EXPECT_EQ(call["microseconds"].contains("mapped"), call["windows"]) << line;
    EXPECT_NE(call.contains("asking"), call["windows"]) << line;
    if (!call["windows"]) asking = std::max(asking, call["asking"].get<double>());
    ++sizes[call["block_bytes"]];
    for (const auto& entry : call["microseconds"].items()) EXPECT_GT(entry.value(), 0.0) << line;
    EXPECT_LE(call["ratio_low"], call["ratio"]) << line;
  }
  EXPECT_EQ(calls, 2 * 9 * 3 * 2);  // numbers of ranks, collectives, sizes, kinds of memory
  EXPECT_EQ(sizes, (std::map<uint64_t, int>{{8, 36}, {4096, 36}, {12288, 36}}));
  EXPECT_EQ(ofTwo, calls / 2);
  EXPECT_GT(asking, 0);

  // Two recordings of the same are one.
  const Result both = runTutti(
      {"tune", "--check", "--from", record, record, "--record", folder.path().string() + "/both"});
  EXPECT_EQ(both.exitCode, 0) << both.err;
  const auto before = lines(folder.read("record")), merged = lines(folder.read("both"));
  ASSERT_EQ(merged.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(Json::parse(merged[i])["microseconds"], Json::parse(before[i])["microseconds"]);
}

// Also those of parts of the job.
TEST(TuneCommand, StartsFromTheConstantsOfRankZero) {
  const TemporaryFolder folder;
  const std::string file = folder.path().string() + "/tuning";
  std::ofstream(file) << "messageMicroseconds = 123000\n";
  const Result run =
      runShell(3, "export TUTTI_LOG=debug; [ $TUTTI_RANK = 0 ] && export TUTTI_TUNING=" + file +
                      "; exec " + tuttiPath + " tune --check --turns 1 --blocks 8,1K,4K,64K");
  EXPECT_EQ(run.exitCode, 0) << run.err;
  const std::regex prediction("^\\[([0-9])\\].*predicted ([0-9.]+) us.*");
  int seen[3] = {};
  std::smatch found;
  for (const std::string& line : lines(run.err)) {
    if (!std::regex_match(line, found, prediction) || contains(line, ": barrier:")) continue;
    ++seen[std::stoi(found[1])];
    EXPECT_GE(std::stod(found[2]), 123000) << line;
  }
  for (const int count : seen) EXPECT_GT(count, 20);
}

TEST(TuneCommand, SaysWhenOtherWorkWasBesideIt) {
  Command other({"sh", "-c", "while :; do :; done"});
  const TemporaryFolder folder;
  const std::string file = folder.path().string() + "/tuning";
  const Result run = runTutti(
      {"tune", "-n", "2", "--turns", "3", "--blocks", "8,64K", "--memory", "window", "-o", file});
  other.signal(SIGKILL);
  other.wait();
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "tutti tune: meanwhile other work took the time of ")) << run.err;
  EXPECT_TRUE(contains(folder.read("tuning"), "; meanwhile other work took the time of "));
}

TEST(TuneCommand, RefusesByName) {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), "tune");
    const Result run = runTutti(words);
    EXPECT_NE(run.exitCode, 0);
    return run.err;
  };
  EXPECT_TRUE(contains(refusal({"-n", "1"}), "--ranks"));
  EXPECT_TRUE(contains(refusal({"-n", "2", "--turns", "0"}), "--turns"));
  EXPECT_TRUE(contains(refusal({"-n", "2", "--check", "-o", "x"}), "--check"));
  EXPECT_TRUE(contains(refusal({"-n", "2", "--memory", "all"}), "--memory"));
  EXPECT_TRUE(contains(refusal({"-n", "2", "--blocks", "8,many"}), "--blocks many"));
  EXPECT_TRUE(contains(refusal({"-n", "2", "--blocks", "6"}), "--blocks 6 is not a multiple of 4"));
  EXPECT_TRUE(contains(refusal({"-n", "2", "--blocks", "1G"}), "--blocks 1G is not"));
  EXPECT_TRUE(contains(refusal({"-n", "2", "--blocks", ""}), "--blocks names no size"));
  EXPECT_TRUE(contains(refusal({"-n", "2", "--blocks", "8,"}), "--blocks \"8,\": between"));
  EXPECT_TRUE(contains(refusal({"-n", "2", "--turns", "1", "-o", "/nowhere/x"}),
                       "-o /nowhere/x cannot be written"));
  EXPECT_TRUE(contains(refusal({"-n", "2", "--turns", "1", "--record", "/nowhere/x"}),
                       "--record /nowhere/x cannot be written"));
  EXPECT_TRUE(contains(refusal({}), "-n N starts several"));
  EXPECT_TRUE(contains(refusal({"--from", "/dev/null"}), "is no regular file"));
  const Result forced = runShell(2, "TUTTI_ALGORITHM=ring exec " + tuttiPath + " tune");
  EXPECT_NE(forced.exitCode, 0);
  EXPECT_TRUE(contains(forced.err, "TUTTI_ALGORITHM=ring forces")) << forced.err;
}

}  // namespace
}  // namespace tutti::launcher
