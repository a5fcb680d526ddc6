// `tutti run` from outside: what the ranks get, how the job ends, what is shown, what is left.
// Arguments: the executables of tutti and of a rank that joins its job (joining_rank.cc).

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include <tutti/launch.h>

#include "src/base/cores.h"
#include "tests/support/child_processes.h"
#include "tests/support/run_program.h"
#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string joiningRankPath;
const tests::Arguments commandLine{{"TUTTI", &tuttiPath}, {"JOINING_RANK", &joiningRankPath}};

std::multiset<std::string> sorted(const std::string& text) {
  const auto all = lines(text);
  return {all.begin(), all.end()};
}

/// The process ids that ranks printed as "pid N".
std::vector<pid_t> printedPids(const std::string& text) {
  std::vector<pid_t> pids;
  for (const std::string& line : lines(text))
    if (const size_t at = line.find("pid "); at != std::string::npos)
      pids.push_back(std::atoi(line.c_str() + at + 4));
  return pids;
}

/// The child of `parent` that calls itself `name`; -1 when there is none.
pid_t childNamed(pid_t parent, const std::string& name) {
  const std::string id = std::to_string(parent);
  std::ifstream children("/proc/" + id + "/task/" + id + "/children");
  for (pid_t child = 0; children >> child;) {
    std::string own;
    std::getline(std::ifstream("/proc/" + std::to_string(child) + "/comm"), own);
    if (own == name) return child;
  }
  return -1;
}

TEST(Run, TellsEachRankWhoItIs) {
  const Result result =
      runShell(3, "echo $TUTTI_RANK $TUTTI_LOCAL_RANK $TUTTI_WORLD_SIZE ${#TUTTI_UNIQUE_ID}");
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(sorted(result.out),
            (std::multiset<std::string>{"[0] 0 0 3 256", "[1] 1 1 3 256", "[2] 2 2 3 256"}));
  EXPECT_EQ(result.err, "");
}

// Each rank ends well here, so that the launcher ends none before it has said what it heard.
TEST(Run, ARankThatDoesNotKnowItsNumberTellsTheOthers) {
  const Result result =
      runShell(3, "[ $TUTTI_RANK = 1 ] && export TUTTI_RANK=one; " + joiningRankPath + "; exit 0");
  EXPECT_EQ(result.exitCode, 0);
  for (const char* rank : {"[0] ", "[1] ", "[2] "})
    EXPECT_TRUE(std::ranges::any_of(lines(result.err),
                                    [&](const std::string& line) {
                                      return line.starts_with(rank) &&
                                             contains(line, "TUTTI_RANK=one is not a whole number");
                                    }))
        << rank << result.err;
  for (const char* rank : {"0", "2"})
    EXPECT_TRUE(
        contains(result.err, std::string("set-up of rank ") + rank + " of 3 failed: a rank (pid "))
        << result.err;
}

TEST(Run, GivesAllRanksOneIdAndEachJobItsOwn) {
  const auto ids = [] {
    const Result result = runShell(3, "echo $TUTTI_UNIQUE_ID");
    std::set<std::string> distinct;
    for (const std::string& line : lines(result.out)) distinct.insert(line.substr(4));
    return distinct;
  };
  const auto first = ids(), second = ids();
  EXPECT_EQ(first.size(), 1u);
  EXPECT_NE(first, second);
}

TEST(Run, SharesTheCoresUnlessToldOtherwise) {
  const std::string share = std::to_string(std::max(1, base::usableCores() / 2));
  const std::string script = "echo $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS";
  unsetenv("OMP_NUM_THREADS");
  unsetenv("OPENBLAS_NUM_THREADS");
  EXPECT_EQ(sorted(runShell(2, script).out).count("[0] " + share + " " + share), 1u);
  setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_EQ(sorted(runShell(2, script).out).count("[1] 7"), 1u);
  unsetenv("OMP_NUM_THREADS");
}

TEST(Run, ReturnsTheCodeOfTheFirstThatFails) {
  const Result result =
      runShell(4, "if [ $TUTTI_RANK = 2 ]; then echo its last words >&2; exit 37; fi; sleep 50");
  EXPECT_EQ(result.exitCode, 37);
  EXPECT_TRUE(contains(result.err, "rank 2 (pid ")) << result.err;
  EXPECT_TRUE(contains(result.err, "it exited with code 37")) << result.err;
  EXPECT_TRUE(contains(result.err, "its last lines:\n[2] its last words\n")) << result.err;
}

TEST(Run, NamesTheSignalThatKilledTheFirst) {
  const Result result = runShell(3, "[ $TUTTI_RANK = 1 ] && kill -9 $$; sleep 50");
  EXPECT_EQ(result.exitCode, 128 + SIGKILL);
  EXPECT_TRUE(contains(result.err, "rank 1 (pid ")) << result.err;
  EXPECT_TRUE(contains(result.err, "was killed by signal 9 (SIGKILL)")) << result.err;
  EXPECT_TRUE(contains(result.err, "it wrote nothing")) << result.err;
}

// Those that go on do so after the launcher has noticed the failure: it has reaped the rank then.
TEST(Run, KeepsTheOthersGoingWhereItIsTold) {
  const TemporaryFolder folder;
  const std::string file = folder.path().string() + "/pid", whole = file + ".whole";
  const std::string script = "if [ $TUTTI_RANK = 1 ]; then echo $$ > " + file + "; mv " + file +
                             " " + whole + "; exit 5; fi; until [ -e " + whole +
                             " ]; do sleep 0.01; done; while kill -0 $(cat " + whole +
                             ") 2> /dev/null; do sleep 0.01; done; sleep 0.3; echo went on; "
                             "[ $TUTTI_RANK = 0 ] || exit 7";
  const Result result = runTutti({"run", "-n", "3", "--keep-going", "sh", "-c", script});
  EXPECT_EQ(result.exitCode, 5) << result.err;
  EXPECT_EQ(sorted(result.out), (std::multiset<std::string>{"[0] went on", "[2] went on"}));
  EXPECT_TRUE(contains(result.err, ") exited with code 5; 2 ranks go on\n")) << result.err;
  EXPECT_TRUE(contains(result.err, "rank 1 (pid ")) << result.err;
  EXPECT_TRUE(contains(result.err, " failed first, ")) << result.err;
  EXPECT_FALSE(contains(result.err, "rank 0 (pid ")) << result.err;
}

TEST(Run, EndsRanksThatKeepGoingWhenItIsInterrupted) {
  Running job({"run", "-n", "2", "--keep-going", "sh", "-c",
               "[ $TUTTI_RANK = 1 ] && exit 5; echo ready; exec sleep 50"});
  ASSERT_TRUE(job.waitForOutput("[0] ready"));
  job.signal(SIGINT);
  const Result result = job.wait();
  EXPECT_NE(result.exitCode, 0);
  EXPECT_TRUE(contains(result.err, "signal 2 (SIGINT)")) << result.err;
}

TEST(Run, SaysWhyAProgramCannotBeRun) {
  Result result = runTutti({"run", "-n", "4", "no_such_program_here"});
  EXPECT_EQ(result.exitCode, 127);
  EXPECT_EQ(result.err,
            "tutti run: cannot execute no_such_program_here: No such file or directory\n");
  result = runTutti({"run", "-n", "4", "/etc/passwd"});
  EXPECT_EQ(result.exitCode, 126);
  EXPECT_EQ(result.err, "tutti run: cannot execute /etc/passwd: Permission denied\n");
  result = runTutti({"run", "-n", "4", "/"});
  EXPECT_EQ(result.exitCode, 126);
}

TEST(Run, SaysWhyAFolderForOutputCannotBeMade) {
  const Result result = runTutti({"run", "-n", "2", "-o", "/proc/none/of/this", "true"});
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.err, "mkdir")) << result.err;
  EXPECT_TRUE(contains(result.err, "/proc/none/of/this")) << result.err;
}

TEST(Run, SaysWhichRankCouldNotStart) {
  // An executable file that the kernel refuses only when it is asked to run it.
  const TemporaryFolder folder;
  const std::string program = folder.path().string() + "/program";
  std::ofstream(program) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"run", "-n", "4", program},
                                                {"run", "-n", "4", "--keep-going", program}}) {
    const Result result = runTutti(words);
    EXPECT_EQ(result.exitCode, 127);
    EXPECT_TRUE(contains(result.err, "rank 0 (pid ")) << result.err;
    EXPECT_TRUE(contains(result.err, "it could not execute " + program)) << result.err;
  }
}

TEST(Run, RefusesWrongCommandLines) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"run", "-n", "0", "true"},
                                                {"run", "-n", "100000", "true"},
                                                {"run", "-n", "2", "--colour", "true"},
                                                {"run", "true"},
                                                {"run", "-n", "2"},
                                                {"frobnicate"},
                                                {}}) {
    const Result result = runTutti(words);
    EXPECT_EQ(result.exitCode, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err, "");
  }
  EXPECT_TRUE(contains(runTutti({"run", "-n", "100000", "true"}).err, "100000"));
  EXPECT_TRUE(contains(runTutti({"run", "-n", "2", "--colour", "true"}).err, "--colour"));
  EXPECT_TRUE(contains(runTutti({"frobnicate"}).err, "frobnicate"));
}

TEST(Run, Helps) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"help"}, {"--help"}, {"--version"}, {"run", "--help"}}) {
    const Result result = runTutti(words);
    EXPECT_EQ(result.exitCode, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_NE(result.out, "");
  }
}

TEST(Run, KeepsOutputAndErrorApart) {
  const Result result = runShell(2, "echo out; echo err >&2; printf unterminated");
  EXPECT_EQ(sorted(result.out), (std::multiset<std::string>{"[0] out", "[0] unterminated",
                                                            "[1] out", "[1] unterminated"}));
  EXPECT_EQ(sorted(result.err), (std::multiset<std::string>{"[0] err", "[1] err"}));
}

TEST(Run, WritesToFiles) {
  const TemporaryFolder folder;
  const std::string logs = folder.path().string() + "/new/logs";
  const Result result = runTutti({"run", "-n", "2", "--output", logs, "sh", "-c",
                                  "echo out $TUTTI_RANK; echo err $TUTTI_RANK >&2; exit 5"});
  EXPECT_EQ(result.exitCode, 5);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(contains(result.err, "its last lines:\n[")) << result.err;
  // Both fail at once; whichever was first, the other may have been ended before it wrote.
  const std::string first = contains(result.err, "rank 0 (pid ") ? "0" : "1";
  EXPECT_EQ(folder.read("new/logs/" + first + ".out"), "out " + first + "\n");
  EXPECT_EQ(folder.read("new/logs/" + first + ".err"), "err " + first + "\n");
}

TEST(Run, LetsRanksWriteThemselves) {
  const Result result = runTutti({"run", "-n", "2", "--no-prefix", "echo", "plain"});
  EXPECT_EQ(result.out, "plain\nplain\n");
}

TEST(Run, DoesNotMixLines) {
  constexpr int kLines = 100'000;
  const Result result = runShell(4,
                                 "awk -v r=$TUTTI_RANK 'BEGIN { for (i = 0; i < 100000; ++i) "
                                 "print \"rank\", r, \"line\", i, \"end\" }'");
  EXPECT_EQ(result.exitCode, 0);
  std::map<int, int> next;
  for (const std::string& line : lines(result.out)) {
    int prefix = -1, rank = -2, number = -1, used = 0;
    ASSERT_EQ(
        std::sscanf(line.c_str(), "[%d] rank %d line %d end%n", &prefix, &rank, &number, &used), 3)
        << line;
    ASSERT_EQ(used, static_cast<int>(line.size())) << line;
    ASSERT_EQ(prefix, rank) << line;
    ASSERT_EQ(number, next[rank]++) << line;
  }
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(next[rank], kLines);
}

TEST(Run, HoldsLittleOfAnEndlessLine) {
  // 64 MiB in one line: the launcher's peak memory must not follow.
  const std::string script =
      "head -c 67108864 /dev/zero | tr '\\0' x; "
      "echo; grep VmHWM /proc/$PPID/status >&2";
  const Result result = runShell(1, script);
  EXPECT_EQ(result.exitCode, 0);
  long kilobytes = 0;
  ASSERT_EQ(std::sscanf(result.err.c_str(), "[0] VmHWM: %ld", &kilobytes), 1) << result.err;
  printf("peak memory of the launcher: %ld KiB\n", kilobytes);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // theirs would hide it
  EXPECT_LT(kilobytes, 32 * 1024);
#endif
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), 'x'), 64 << 20);
}

TEST(Run, GivesItsInputToRankZeroOnly) {
  const Result result = runTutti({"run", "-n", "3", "sh", "-c", "cat; echo done"}, "typed\n");
  EXPECT_EQ(sorted(result.out),
            (std::multiset<std::string>{"[0] typed", "[0] done", "[1] done", "[2] done"}));
}

TEST(Run, PassesSignalsOn) {
  for (const int signal : {SIGUSR1, SIGINT, SIGTERM}) {
    const std::string name = sigabbrev_np(signal);
    Running job({"run", "-n", "3", "sh", "-c",
                 "trap 'echo got " + name + "; exit 0' " + name +
                     "; echo ready; while :; do sleep 0.01; done"});
    ASSERT_TRUE(job.waitForOutput("[0] ready") && job.waitForOutput("[1] ready") &&
                job.waitForOutput("[2] ready"));
    job.signal(signal);
    const Result result = job.wait();
    EXPECT_EQ(result.exitCode, 0) << name;
    for (const char* rank : {"[0]", "[1]", "[2]"})
      EXPECT_TRUE(contains(result.out, std::string(rank) + " got " + name)) << result.out;
    EXPECT_FALSE(contains(result.err, "failed first")) << result.err;
    // Whoever helps a rank is not hit by a signal that it need not know.
    if (signal == SIGUSR1) {
      EXPECT_EQ(result.err, "");
    }
  }
}

TEST(Run, PassesSignalsThatEndToWhatRanksHaveStarted) {
  Running job({"run", "-n", "2", "sh", "-c",
               "trap 'wait; exit 0' TERM; (trap 'echo helper got TERM; exit 0' TERM; echo ready; "
               "while :; do sleep 0.01; done) & wait"});
  ASSERT_TRUE(job.waitForOutput("[0] ready") && job.waitForOutput("[1] ready"));
  job.signal(SIGTERM);
  const Result result = job.wait();
  for (const char* rank : {"[0]", "[1]"})
    EXPECT_TRUE(contains(result.out, std::string(rank) + " helper got TERM")) << result.out;
}

TEST(Run, EndsARankThatIsStopped) {
  const Result result =
      runTutti({"run", "-n", "2", "--grace", "40", "sh", "-c",
                "if [ $TUTTI_RANK = 0 ]; then sleep 0.3; exit 3; fi; kill -STOP $$"});
  EXPECT_EQ(result.exitCode, 3);
  EXPECT_FALSE(contains(result.err, "did not end within")) << result.err;
}

TEST(Run, EndsAsItsRanksDoWhenInterrupted) {
  Running job({"run", "-n", "3", "sh", "-c", "echo ready; exec sleep 50"});
  ASSERT_TRUE(job.waitForOutput("[2] ready") && job.waitForOutput("[1] ready") &&
              job.waitForOutput("[0] ready"));
  job.signal(SIGINT);
  const Result result = job.wait();
  EXPECT_EQ(result.exitCode, 128 + SIGINT);
  EXPECT_TRUE(contains(result.err, "signal 2 (SIGINT)")) << result.err;
}

TEST(Run, KillsWhoeverIgnoresTheRequestToEnd) {
  const std::string script =
      "if [ $TUTTI_RANK = 0 ]; then sleep 0.2; exit 3; fi; trap '' TERM; echo pid $$; "
      "while :; do sleep 0.05; done";
  const Result result = runTutti({"run", "-n", "3", "--grace", "0.5", "sh", "-c", script});
  EXPECT_EQ(result.exitCode, 3);
  EXPECT_TRUE(contains(result.err, "did not end within 0.5 s")) << result.err;
  for (pid_t pid : printedPids(result.out)) EXPECT_FALSE(alive(pid)) << pid;
}

TEST(Run, EndsWhatRanksHaveStartedAndLeftBehind) {
  const Result result = runShell(2, "sleep 50 & echo pid $!");
  EXPECT_EQ(result.exitCode, 0);
  const auto pids = printedPids(result.out);
  ASSERT_EQ(pids.size(), 2u);
  for (pid_t pid : pids) EXPECT_TRUE(eventually([&] { return !alive(pid); }, seconds(20))) << pid;
}

TEST(Run, LeavesNobodyWhenTheLauncherIsKilled) {
  for (int i = 0; i < 5; ++i) {
    // The ranks and what they have started, which no signal of the kernel reaches.
    Running job({"run", "-n", "4", "sh", "-c",
                 "trap '' TERM HUP INT; echo pid $$; sleep 50 & echo pid $!; echo ready; wait"});
    for (const char* rank : {"[0]", "[1]", "[2]", "[3]"})
      ASSERT_TRUE(job.waitForOutput(std::string(rank) + " ready"));
    const auto pids = printedPids(job.outputSoFar());
    ASSERT_EQ(pids.size(), 8u);
    for (pid_t pid : pids) EXPECT_TRUE(alive(pid));
    job.signal(SIGKILL);
    EXPECT_EQ(job.wait().exitCode, 128 + SIGKILL);
    for (pid_t pid : pids) EXPECT_TRUE(eventually([&] { return !alive(pid); }, seconds(20))) << pid;
  }
}

// The kernel's own signal is the second net, for the ranks themselves.
TEST(Run, LeavesNoRankWhenLauncherAndGuardianAreKilled) {
  Running job({"run", "-n", "3", "sh", "-c", "echo pid $$; echo ready; exec sleep 50"});
  for (const char* rank : {"[0]", "[1]", "[2]"})
    ASSERT_TRUE(job.waitForOutput(std::string(rank) + " ready"));
  const auto pids = printedPids(job.outputSoFar());
  ASSERT_EQ(pids.size(), 3u);
  const pid_t guardian = childNamed(job.pid(), "tutti-guardian");
  ASSERT_GT(guardian, 0);
  kill(guardian, SIGKILL);
  ASSERT_TRUE(eventually([&] { return !alive(guardian); }, seconds(20)));
  job.signal(SIGKILL);
  job.wait();
  for (pid_t pid : pids) EXPECT_TRUE(eventually([&] { return !alive(pid); }, seconds(20))) << pid;
}

TEST(Run, LeavesNobodyWhenTheLauncherIsKilledWhileItStarts) {
  const TemporaryFolder folder;
  for (int i = 0; i < 40; ++i) {
    // Each rank leaves a file with its number before it sleeps; the kill comes at another moment
    // each time.
    Running job(
        {"run", "-n", "8", "sh", "-c", "touch " + folder.path().string() + "/$$; exec sleep 50"});
    usleep(i * 1000);
    job.signal(SIGKILL);
    job.wait();
  }
  EXPECT_TRUE(eventually(
      [&] {
        for (const auto& entry : std::filesystem::directory_iterator(folder.path().string()))
          if (alive(std::atoi(entry.path().filename().c_str()))) return false;
        return true;
      },
      seconds(2)));
}

// The smallest limit that is accepted is enough for ranks that join their job at once; a smaller
// one is refused before anything starts.
TEST(Run, KnowsHowManyDescriptorsItNeeds) {
  const auto under = [](int limit) {
    return runShell(1, "ulimit -n " + std::to_string(limit) + "; exec " + tuttiPath +
                           " run -n 60 " + joiningRankPath);
  };
  constexpr int kLeast = 60 * 4 + 64;
  const Result enough = under(kLeast);
  EXPECT_EQ(enough.exitCode, 0) << enough.err;
  const Result few = under(kLeast - 1);
  EXPECT_EQ(few.exitCode, 2);
  EXPECT_TRUE(contains(few.err, "60 ranks need 304 open files")) << few.err;
}

// Exec hands on that SIGCHLD is ignored, and the kernel then keeps no exit codes.
TEST(Run, SeesExitCodesAlthoughItsParentIgnoredThem) {
  const Result result =
      runShell(1, "exec env --ignore-signal=CHLD " + tuttiPath +
                      " run -n 3 -- sh -c '[ $TUTTI_RANK = 1 ] && exit 37; sleep 50'");
  EXPECT_EQ(result.exitCode, 37) << result.err;
}

TEST(Launch, KeepsExitCodesFromTheProgramsSigchldHandler) {
  const int code = tests::inChild([] {
    struct sigaction action = {}, after = {};
    action.sa_handler = [](int) {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
    };
    sigaction(SIGCHLD, &action, nullptr);
    const int result = launch({.command = {"sh", "-c", "exit 37"}, .ranks = 8});
    sigaction(SIGCHLD, nullptr, &after);
    return after.sa_handler == action.sa_handler ? result : 1;
  });
  EXPECT_EQ(code, 37);
}

// How a rank ended is then lost, but not that it has: the job ends.
TEST(Launch, EndsAlthoughAnotherThreadReapsTheRanks) {
  const int code = tests::inChild([] {
    std::thread([] {
      while (true) waitpid(-1, nullptr, 0);
    }).detach();
    return launch({.command = {"true"}, .ranks = 8});
  });
  EXPECT_LE(code, 1);  // 0 when the launcher was first with every one of them
}

TEST(Run, EndsWhenItsReaderHasGone) {
  const std::string command = tuttiPath + " run -n 2 sh -c 'yes' 2>&1 | head -n 1";
  // It returns: `yes` got SIGPIPE, and with it the job ended.
  EXPECT_TRUE(contains(tests::runProgram(command).text, "y"));
}

/// What `tutti run -n 2` of a shell script comes to where a shell redirects its standard streams.
Result redirected(const std::string& script, const std::string& redirection) {
  const std::string command = tuttiPath + " run -n 2 sh -c '" + script + "' " + redirection;
  return runShell(1, "( " + command + " ); echo code $?");
}

TEST(Run, WorksWithoutStandardStreams) {
  TemporaryFolder folder;
  for (const char* closed : {"<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"}) {
    const std::string file = folder.path().string() + "/sum";
    std::filesystem::remove(file);
    const Result result = redirected("cat; echo out; echo err >&2; echo rank >>" + file, closed);
    EXPECT_TRUE(contains(result.out, "code 0")) << closed << ": " << result.out << result.err;
    EXPECT_EQ(folder.read("sum"), "rank\nrank\n") << closed;
  }
}

TEST(Run, SaysThatOutputIsLost) {
  const Result full = redirected("echo out", ">/dev/full");
  EXPECT_TRUE(contains(full.out, "code 1")) << full.out;
  EXPECT_TRUE(contains(full.err, "standard output is lost from here on: No space left on device"))
      << full.err;
  EXPECT_TRUE(contains(redirected("exit 7", ">/dev/full").out, "code 7"));
}

}  // namespace
}  // namespace tutti::launcher
