// The programs with nccl-tests' names as people start them: alone, by tutti run, with several ranks
// in each process.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

const tests::Arguments commandLine{{"TUTTI", &tuttiPath}};

/// `tutti run -n processes` of a program, on small sizes.
Result runProgram(int processes, const std::string& program,
                  const std::vector<std::string>& flags = {}) {
  std::vector<std::string> words{"run",
                                 "-n",
                                 std::to_string(processes),
                                 "--no-prefix",
                                 "--",
                                 besideTutti(program),
                                 "-b",
                                 "8",
                                 "-e",
                                 "4K",
                                 "-f",
                                 "8",
                                 "-n",
                                 "3",
                                 "-w",
                                 "1"};
  words.insert(words.end(), flags.begin(), flags.end());
  return runTutti(words);
}

void expectRight(const Result& run, const std::string& what) {
  EXPECT_EQ(run.exitCode, 0) << what << run.out << run.err;
  EXPECT_EQ(run.err, "") << what;
  size_t rows = 0, footers = 0;
  for (const std::string& line : lines(run.out)) {
    if (line == "# Out of bounds values : 0 OK") ++footers;
    if (!line.starts_with("#")) ++rows;
  }
  EXPECT_EQ(footers, 1u) << what << run.out;
  EXPECT_EQ(rows, 4u) << what << run.out;
}

TEST(NcclPerfPrograms, AreRightOnOneTwoThreeAndFourRanks) {
  for (const std::string& program : ncclPerfPrograms)
    for (const int ranks : {1, 2, 3, 4}) {
      if (program == "hypercube_perf" && ranks == 3) continue;
      expectRight(runProgram(ranks, program), program + " on " + std::to_string(ranks) + "\n");
    }
}

TEST(NcclPerfPrograms, HaveRanksInEveryProcess) {
  for (const std::string program : {"all_reduce_perf", "alltoallv_perf"}) {
    const Result run = runProgram(2, program, {"-t", "2", "-g", "2"});
    expectRight(run, program);
    EXPECT_TRUE(contains(run.out, "rank 0 of 8")) << run.out;
    std::vector<std::string> pids;
    for (const std::string& line : lines(run.out))
      if (const size_t at = line.find("(pid "); at != std::string::npos)
        pids.push_back(line.substr(at, line.find(' ', at + 5) - at));
    ASSERT_EQ(pids.size(), 8u) << run.out;
    for (size_t rank = 0; rank < 8; ++rank)
      EXPECT_EQ(pids[rank] == pids[0], rank < 4) << run.out;  // each process has consecutive ones
  }
}

TEST(NcclPerfPrograms, NeedNoLauncher) {
  const Result run =
      Command({besideTutti("all_reduce_perf"), "-b", "8", "-e", "8", "-g", "2", "-n", "1"}).wait();
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "# Out of bounds values : 0 OK")) << run.out;
  EXPECT_TRUE(contains(run.out, "rank 0 of 2")) << run.out;
}

TEST(NcclPerfPrograms, WriteJson) {
  const TemporaryFolder folder;
  const std::string file = folder.path().string() + "/out.json";
  expectRight(runProgram(2, "all_reduce_perf", {"-J", file}), "");
  const auto json = nlohmann::json::parse(folder.read("out.json"));
  EXPECT_EQ(json["ranks"], 2);
  ASSERT_EQ(json["results"].size(), 4u);
  EXPECT_EQ(json["results"][3]["size"], 4096);
  EXPECT_GT(json["results"][3]["out_of_place"]["time"], 0);
  EXPECT_EQ(json["out_of_bounds"]["okay"], true);
}

TEST(NcclPerfPrograms, RefuseWithExitCodeTwoAndTheName) {
  const auto refused = [](const std::vector<std::string>& flags,
                          const std::vector<std::string>& variables = {}) {
    std::vector<std::string> words{besideTutti("broadcast_perf")};
    words.insert(words.end(), flags.begin(), flags.end());
    const Result run = Command(words, {}, variables).wait();
    EXPECT_EQ(run.exitCode, 2) << run.err;
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_EQ(refused({"-G", "2"}),
            "broadcast_perf: -G 2: there are no CUDA graphs of calls on host memory\n");
  EXPECT_TRUE(contains(refused({"-Q", "2"}), "-Q"));
  EXPECT_TRUE(contains(refused({"-n", "0"}), "--iters"));
  EXPECT_EQ(refused({"-r", "1"}), "broadcast_perf: --root 1 is not a rank of 0..0\n");
  for (const std::string name :
       {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK", "NCCL_TESTS_DEVICE", "NCCL_TESTS_MIN_BW"})
    EXPECT_EQ(refused({}, {name + "=1"}),
              "broadcast_perf: " + name + " is set, and has no meaning here: unset it\n");
}

TEST(NcclPerfPrograms, NameTheMemoryThatThereIsNot) {
  const Result run =
      Command({besideTutti("all_reduce_perf"), "-b", "1048576G", "-e", "1048576G", "-g", "2"})
          .wait();
  EXPECT_EQ(run.exitCode, 1);
  EXPECT_TRUE(contains(run.err,
                       "all_reduce_perf: buffers for all_reduce of 1125899906842624 bytes: 2 ranks "
                       "need together 4503599627370496 bytes, and "))
      << run.err;
}

TEST(NcclPerfPrograms, FailBeforeTheyMeasureWhenJsonCannotBeWritten) {
  const Result run = Command({besideTutti("all_reduce_perf"), "-J", "/nowhere/at/all.json"}).wait();
  EXPECT_EQ(run.exitCode, 1);
  EXPECT_EQ(
      run.err,
      "all_reduce_perf: -J /nowhere/at/all.json cannot be written: No such file or directory\n");
  const Result full =
      Command({besideTutti("all_reduce_perf"), "-b", "8", "-e", "8", "-n", "1", "-J", "/dev/full"})
          .wait();
  EXPECT_EQ(full.exitCode, 1);
  EXPECT_TRUE(contains(full.err, "-J /dev/full cannot be written: No space left on device"))
      << full.err;
}

// What was measured before is worth more than what a run has not measured.
TEST(NcclPerfPrograms, KeepJsonOfBeforeUntilTheNewIsWhole) {
  const TemporaryFolder folder;
  const std::string file = folder.path().string() + "/all.json";
  std::ofstream(file) << "before";
  const std::vector<std::string> words{
      besideTutti("all_reduce_perf"), "-b", "8", "-n", "1", "-J", file};
  std::vector<std::string> tooLarge = words, small = words;
  tooLarge.insert(tooLarge.end(), {"-e", "1P", "-g", "2"});
  small.insert(small.end(), {"-e", "8"});
  EXPECT_NE(Command(tooLarge).wait().exitCode, 0);
  EXPECT_EQ(folder.read("all.json"), "before");
  EXPECT_EQ(Command(small).wait().exitCode, 0);
  EXPECT_TRUE(contains(folder.read("all.json"), "all_reduce")) << folder.read("all.json");
}

}  // namespace
}  // namespace tutti::launcher
