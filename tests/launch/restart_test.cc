// `tutti run --restarts K`: when a job is started again, and when it is not; what its new ranks
// get, and that nothing of an earlier attempt is left. Arguments: the executables of tutti and of a
// rank that joins its job (joining_rank.cc).

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include <tutti/launch.h>

#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

using std::chrono::seconds;

std::string joiningRankPath;
const tests::Arguments commandLine{{"TUTTI", &tuttiPath}, {"JOINING_RANK", &joiningRankPath}};

std::vector<std::string> command(int ranks, int restarts, const std::string& script) {
  return {"run", "-n",  std::to_string(ranks), "--restarts", std::to_string(restarts), "--", "sh",
          "-c",  script};
}

Result run(int ranks, int restarts, const std::string& script) {
  return runTutti(command(ranks, restarts, script));
}

/// What followed "[RANK] WORD " in the lines that have it.
std::vector<std::string> said(const std::string& text, int rank, const std::string& word) {
  const std::string start = "[" + std::to_string(rank) + "] " + word + " ";
  std::vector<std::string> values;
  for (const std::string& line : lines(text))
    if (line.starts_with(start)) values.push_back(line.substr(start.size()));
  return values;
}

TEST(Restarts, GoOnUntilAnAttemptSucceeds) {
  const TemporaryFolder folder;
  // Before it does anything, each rank looks for those of earlier attempts, which would stay long.
  const Result result =
      run(3, 5,
          "cd " + folder.path().string() +
              "; for f in *.rank; do [ -e $f ] && [ ${f%%.*} != $TUTTI_RESTART ] && "
              "kill -0 $(cat $f) 2>/dev/null && echo met $f; done; sleep 50 & "
              "echo $$ >$TUTTI_RESTART.$TUTTI_RANK.rank; echo helper $!; "
              "echo restart $TUTTI_RESTART; [ $TUTTI_RESTART = 2 ] && exit 0; "
              "[ $TUTTI_RANK = 1 ] && exit 5; trap '' TERM; sleep 0.3; exec sleep 0.3");
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_FALSE(contains(result.out, "met ")) << result.out;
  EXPECT_EQ(said(result.out, 1, "helper").size(), 3u) << result.out;
  for (const std::string& pid : said(result.out, 1, "helper"))
    EXPECT_TRUE(eventually([&] { return !alive(std::stoi(pid)); }, seconds(2))) << pid;
  EXPECT_EQ(said(result.out, 1, "restart"), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_TRUE(contains(result.err, "rank 1 (pid ")) << result.err;
  EXPECT_TRUE(contains(result.err, "it exited with code 5")) << result.err;
  for (const char* attempt : {"1", "2"})
    EXPECT_TRUE(contains(result.err, "tutti run: attempt " + std::string(attempt) +
                                         " of 6 failed: the job starts again\n"))
        << result.err;
  EXPECT_FALSE(contains(result.err, "attempt 3")) << result.err;
}

TEST(Restarts, AreCountedAndTheLastCodeCounts) {
  for (const int restarts : {0, 1, 3}) {
    const Result result = run(2, restarts,
                              "echo restart $TUTTI_RESTART; sleep 0.05; "
                              "[ $TUTTI_RANK = 0 ] && exit $((30 + TUTTI_RESTART)); sleep 50");
    EXPECT_EQ(result.exitCode, 30 + restarts) << result.err;
    EXPECT_EQ(said(result.out, 0, "restart").size(), static_cast<size_t>(restarts) + 1);
    const std::string last = std::to_string(restarts + 1);
    EXPECT_EQ(contains(result.err, "attempt " + last + " of " + last +
                                       " failed: the job has no attempt left\n"),
              restarts > 0)
        << result.err;
  }
}

TEST(Restarts, AreNoneUnlessAskedFor) {
  const Result result = runShell(1, "echo restart $TUTTI_RESTART; exit 4");
  EXPECT_EQ(result.exitCode, 4);
  EXPECT_EQ(result.out, "[0] restart 0\n");
  EXPECT_FALSE(contains(result.err, "attempt")) << result.err;
}

TEST(Restarts, MeetUnderANewId) {
  const Result result = run(2, 3, "echo id $TUTTI_UNIQUE_ID; sleep 0.05; exit 1");
  const auto ids = said(result.out, 0, "id");
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 4u);
}

// Each attempt's ranks really join, and then one of them dies.
TEST(Restarts, FollowTheKillOfAnyRank) {
  constexpr int kRanks = 4, kKills = 4;
  std::mt19937_64 random(tests::testSeed());
  Running job(command(kRanks, kKills,
                      joiningRankPath + " || exit 9; echo pid $$; [ $TUTTI_RESTART = " +
                          std::to_string(kKills) + " ] && exit 0; exec sleep 50"));
  for (size_t kill = 0; kill < kKills; ++kill) {
    const int victim = static_cast<int>(random() % kRanks);
    std::vector<std::string> pids;
    ASSERT_TRUE(eventually(
        [&] {
          for (int rank = 0; rank < kRanks; ++rank)
            if (said(job.outputSoFar(), rank, "pid").size() <= kill) return false;
          pids = said(job.outputSoFar(), victim, "pid");
          return true;
        },
        seconds(60)));
    ASSERT_EQ(::kill(std::stoi(pids[kill]), SIGKILL), 0);
  }
  const Result result = job.wait();
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "was killed by signal 9 (SIGKILL)")) << result.err;
  EXPECT_TRUE(contains(result.err, "attempt 4 of 5 failed: the job starts again")) << result.err;
}

TEST(Restarts, EndWithASignalToTheLauncher) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Running job(command(2, 5, "[ $TUTTI_RESTART = 0 ] && exit 3; echo ready; exec sleep 50"));
    ASSERT_TRUE(job.waitForOutput("[0] ready") && job.waitForOutput("[1] ready"));
    job.signal(signal);
    const Result result = job.wait();
    EXPECT_EQ(result.exitCode, 128 + signal) << result.err;
    EXPECT_EQ(lines(result.out).size(), 2u) << result.out;
    EXPECT_TRUE(contains(result.err, "attempt 2 of 6 failed: the job was told to end\n"))
        << result.err;
  }
}

// It comes while the others of a failed attempt take their time.
TEST(Restarts, EndWithASignalBetweenTwoAttempts) {
  Running job(command(2, 5,
                      "echo attempt $TUTTI_RESTART; [ $TUTTI_RANK = 0 ] && { sleep 0.3; exit 3; }; "
                      "trap 'echo ending; sleep 0.5; exit 0' TERM; "
                      "while :; do sleep 0.02; done"));
  ASSERT_TRUE(job.waitForOutput("[1] ending"));
  job.signal(SIGTERM);
  const Result result = job.wait();
  EXPECT_EQ(result.exitCode, 3) << result.err;
  EXPECT_EQ(said(result.out, 1, "attempt"), std::vector<std::string>{"0"});
  EXPECT_TRUE(contains(result.err, "attempt 1 of 6 failed: the job was told to end\n"))
      << result.err;
}

TEST(Restarts, DoNotEndWithASignalForTheRanks) {
  Running job(command(1, 1,
                      "[ $TUTTI_RESTART = 1 ] && exit 0; trap 'exit 7' USR1; echo ready; "
                      "while :; do sleep 0.02; done"));
  ASSERT_TRUE(job.waitForOutput("[0] ready"));
  job.signal(SIGUSR1);
  const Result result = job.wait();
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "attempt 1 of 2 failed: the job starts again")) << result.err;
}

TEST(Restarts, DoNotHelpAProgramThatCannotStart) {
  const TemporaryFolder folder;
  const std::string program = folder.path().string() + "/program";
  std::ofstream(program) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Result result = runTutti({"run", "-n", "2", "--restarts", "3", program});
  EXPECT_EQ(result.exitCode, 127);
  EXPECT_TRUE(contains(result.err, "attempt 1 of 4 failed: the job cannot start\n")) << result.err;
}

TEST(Restarts, EndWhenNobodyReads) {
  const TemporaryFolder folder;
  const Result result = runShell(
      1, "{ " + tuttiPath + " run -n 2 --restarts 9 -- yes; echo code $? >&2; } | head -n 1");
  EXPECT_TRUE(contains(result.err, "attempt 1 of 10 failed: the job has no reader left"))
      << result.err;
  EXPECT_TRUE(contains(result.err, "code 141")) << result.err;
}

TEST(Restarts, KeepTheOutputOfEachAttempt) {
  const TemporaryFolder folder;
  const Result result =
      runTutti({"run", "-n", "2", "--restarts", "2", "-o", folder.path().string(), "sh", "-c",
                "echo out $TUTTI_RESTART; [ $TUTTI_RESTART = 0 ] && echo only once >&2; "
                "[ $TUTTI_RANK = 1 ] && sleep 50; exit 6"});
  EXPECT_EQ(result.exitCode, 6);
  EXPECT_EQ(folder.read("0.out"), "out 0\n");
  EXPECT_EQ(folder.read("0.err"), "only once\n");
  EXPECT_EQ(folder.read("restart-1/0.out"), "out 1\n");
  EXPECT_EQ(folder.read("restart-2/0.out"), "out 2\n");
  EXPECT_EQ(folder.read("restart-2/0.err"), "");
  // The last lines that are shown are those of the attempt that failed.
  EXPECT_TRUE(contains(result.err, "its last lines:\n[0] out 2\n")) << result.err;
}

TEST(Restarts, LeaveTheRestOfTheInput) {
  const Result result =
      runTutti({"run", "-n", "2", "--restarts", "2", "sh", "-c",
                "[ $TUTTI_RANK = 1 ] && sleep 50; read line; echo read $line; exit 1"},
               "one\ntwo\nthree\nfour\n");
  EXPECT_EQ(said(result.out, 0, "read"), (std::vector<std::string>{"one", "two", "three"}));
}

TEST(Restarts, CostTheLauncherNothing) {
  // The least of several counts: at the first the launcher may still be about to start this rank.
  const Result result = run(1, 6,
                            "least=999; for i in 1 2 3 4 5; do count=$(ls /proc/$PPID/fd | wc -l); "
                            "[ $count -lt $least ] && least=$count; sleep 0.02; done; "
                            "echo files $least; exit 1");
  const auto files = said(result.out, 0, "files");
  ASSERT_EQ(files.size(), 7u);
  for (const std::string& count : files) EXPECT_EQ(count, files[0]) << result.out;
}

TEST(Restarts, LeaveNobodyWhenTheLauncherIsKilled) {
  Running job(command(2, 3,
                      "[ $TUTTI_RESTART = 0 ] && exit 3; trap '' TERM HUP INT; sleep 50 & "
                      "echo pid $!; echo pid $$; echo ready; wait"));
  ASSERT_TRUE(job.waitForOutput("[0] ready") && job.waitForOutput("[1] ready"));
  job.signal(SIGKILL);
  const std::string out = job.wait().out;
  for (const int rank : {0, 1})
    for (const std::string& pid : said(out, rank, "pid"))
      EXPECT_TRUE(eventually([&] { return !alive(std::stoi(pid)); }, seconds(2))) << pid;
}

TEST(Restarts, RefuseWhatCannotBe) {
  for (const LaunchOptions& options :
       {LaunchOptions{.command = {"true"}, .restarts = -1},
        LaunchOptions{.command = {"true"}, .restarts = 1001},
        LaunchOptions{.command = {"true"}, .restarts = 1, .keepGoing = true},
        LaunchOptions{.command = {"true"}, .restarts = 1, .uniqueId = "ab"}}) {
    const tests::Outcome outcome = tests::outcomeOf([&] { launch(options); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "restarts")) << outcome.text;
  }
}

}  // namespace
}  // namespace tutti::launcher
