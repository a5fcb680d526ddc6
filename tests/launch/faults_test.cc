// The launcher among readers that stand still, kernels that refuse calls, and ranks that the kernel
// holds: it ends, and says what was.
// Arguments: the executable of tutti.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <tutti/launch.h>

#include "src/base/file_descriptor.h"
#include "tests/support/child_processes.h"
#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

using base::FileDescriptor;
using std::chrono::milliseconds;
using std::chrono::seconds;

const tests::Arguments commandLine{{"TUTTI", &tuttiPath}};

/// Pipes and terminals whose reader stands still, by path.
class StillReaders : public testing::TestWithParam<bool> {
 protected:
  StillReaders() {
    if (GetParam()) {
      held_ = FileDescriptor(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
      EXPECT_EQ(grantpt(held_.get()) | unlockpt(held_.get()), 0);
      path_ = ptsname(held_.get());
      user_ = FileDescriptor(open(path_.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    } else {
      path_ = folder_.path().string() + "/fifo";
      EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
      held_ = FileDescriptor(open(path_.c_str(), O_RDWR | O_CLOEXEC));
    }
  }
  /// `tutti run` with these words, and its standard output there.
  std::vector<std::string> command(const std::string& words) const {
    return {"sh", "-c", "exec " + tuttiPath + " run -n 2 " + words + " > " + path_};
  }
  /// Waits until the reader would have something to read.
  void waitUntilItWrites() const {
    EXPECT_TRUE(eventually(
        [&] {
          char byte = 0;
          const int flags = fcntl(held_.get(), F_GETFL);
          EXPECT_EQ(fcntl(held_.get(), F_SETFL, flags | O_NONBLOCK), 0);
          return read(held_.get(), &byte, 1) == 1;
        },
        seconds(60)));
  }

 private:
  TemporaryFolder folder_;
  FileDescriptor held_, user_;
  std::string path_;
};

/// How both ranks say that they have come to some place.
class RanksThatSaySo {
 public:
  /// The shell command that says it, for single quotes.
  std::string words() const { return "touch " + folder_.path().string() + "/$TUTTI_RANK"; }
  bool bothHave() const {
    return eventually([&] { return exists(folder_.path() / "0") && exists(folder_.path() / "1"); },
                      seconds(60));
  }

 private:
  TemporaryFolder folder_;
};

/// Whether this signal was sent to the process and it has not taken it.
bool pends(pid_t process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  uint64_t pending = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:"))
      pending |= std::stoull(line.substr(7), nullptr, 16);
  return (pending >> (signal - 1) & 1) != 0;
}

TEST_P(StillReaders, DoNotOutlastTheGracePeriodAfterASignal) {
  Command job(command("--grace 0.3 yes"));
  waitUntilItWrites();
  job.signal(SIGTERM);
  const Result result = job.wait();
  EXPECT_EQ(result.exitCode, 128 + SIGTERM);
  EXPECT_TRUE(contains(result.err, "standard output is lost in part: its reader takes nothing"))
      << result.err;
}

TEST_P(StillReaders, EndWithTheSecondSignal) {
  const RanksThatSaySo ranks;
  Command job(command("--grace 100000 sh -c 'trap \"\" TERM INT; " + ranks.words() + "; yes'"));
  ASSERT_TRUE(ranks.bothHave());
  waitUntilItWrites();
  job.signal(SIGTERM);
  ASSERT_TRUE(eventually([&] { return !pends(job.pid(), SIGTERM); }, seconds(60)));
  std::this_thread::sleep_for(milliseconds(400));  // for what comes sooner is the same request
  EXPECT_TRUE(alive(job.pid()));
  job.signal(SIGINT);
  const Result result = job.wait();
  EXPECT_EQ(result.exitCode, 128 + SIGKILL);
  EXPECT_TRUE(contains(result.err, "this process was told to end again")) << result.err;
}

TEST_P(StillReaders, AreWaitedForAsLongAsAsked) {
  const Result result = Command(command("--output-timeout 0.5 seq 20000")).wait();
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.err, "standard output is lost in part: its reader takes nothing"))
      << result.err;
}

TEST_P(StillReaders, EndWithASignalOnceNoRankRuns) {
  const RanksThatSaySo ranks;
  Command job(command("sh -c 'seq 20000; " + ranks.words() + "'"));
  ASSERT_TRUE(ranks.bothHave());
  job.signal(SIGTERM);
  EXPECT_NE(job.wait().exitCode, 0);
}

INSTANTIATE_TEST_SUITE_P(Run, StillReaders, testing::Values(false, true),
                         [](const auto& given) { return given.param ? "Terminal" : "Pipe"; });

// A wrapper and a terminal both pass on one Ctrl-C: that is no second request.
TEST(Run, TakesSignalsOfOneMomentAsOne) {
  Running job({"run", "-n", "2", "sh", "-c",
               "trap 'sleep 0.5; echo saved; exit 0' INT TERM; echo ready; while :; do sleep 0.01; "
               "done"});
  ASSERT_TRUE(job.waitForOutput("[0] ready") && job.waitForOutput("[1] ready"));
  job.signal(SIGINT);
  job.signal(SIGTERM);
  const Result result = job.wait();
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "[0] saved") && contains(result.out, "[1] saved")) << result.out;
}

/// Lets these system calls fail, as containers' profiles do. False when the kernel has no seccomp.
bool refuse(const std::vector<int>& calls, int error) {
  std::vector<sock_filter> filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const int call : calls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Launch, RunsAsUsualWhereNewerSystemCallsAreRefused) {
  constexpr int kNoSeccomp = 99;
  for (const int error : {ENOSYS, EPERM})
    for (const std::vector<int>& calls :
         {std::vector<int>{SYS_close_range}, {SYS_pidfd_open}, {SYS_close_range, SYS_pidfd_open}})
      for (const std::string script : {"exit 0", "sleep 0.2; exit $((30 + TUTTI_RANK))"}) {
        const int code = tests::inChild([&] {
          if (!refuse(calls, error)) return kNoSeccomp;
          return launch({.command = {"sh", "-c", script}, .ranks = 2});
        });
        if (code == kNoSeccomp) GTEST_SKIP() << "this kernel has no seccomp";
        if (script == "exit 0")
          EXPECT_EQ(code, 0) << error;
        else
          EXPECT_TRUE(code == 30 || code == 31) << code << ", " << error;
      }
}

// Whoever traces a process gets its end first: the launcher cannot reap it, and cannot know why.
TEST(Run, LeavesARankThatIsHeldThoughKilled) {
  Running job({"run", "-n", "1", "--grace", "0.1", "sh", "-c", "echo pid $$; exec sleep 1000"});
  ASSERT_TRUE(job.waitForOutput("\n"));
  const std::string said = job.outputSoFar();
  const pid_t rank = std::atoi(said.c_str() + said.find("pid ") + 4);
  if (ptrace(PTRACE_SEIZE, rank, nullptr, nullptr) != 0) {
    job.signal(SIGKILL);
    GTEST_SKIP() << "this process may not trace others";
  }
  job.signal(SIGTERM);
  const Result result = job.wait();
  EXPECT_EQ(result.exitCode, 128 + SIGKILL);
  EXPECT_TRUE(contains(result.err,
                       "rank 0 (pid " + std::to_string(rank) + ") was killed, but does not end"))
      << result.err;
}

TEST(Run, NamesTheFullDiskThatEndsItsRanks) {
  const Result result =
      Command({"sh", "-c",
               "exec " + tuttiPath + " run -n 2 sh -c 'echo last >&2; exec yes' > /dev/full"})
          .wait();
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.err, "No space left on device (ENOSPC)")) << result.err;
  EXPECT_FALSE(contains(result.err, "it wrote nothing")) << result.err;
}

TEST(Run, DoesNotStartAgainWhereItCannotWrite) {
  const Result result =
      Command({"sh", "-c", "exec " + tuttiPath + " run -n 1 --restarts 3 yes > /dev/full"}).wait();
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.err, "attempt 1 of 4 failed: the job cannot write its output"))
      << result.err;
}

TEST(Run, RefusesAnOutputFileThatNobodyReads) {
  const TemporaryFolder folder;
  const std::string fifo = folder.path().string() + "/0.out";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const Result result = runTutti({"run", "-n", "1", "-o", folder.path().string(), "true"});
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.err, fifo) && contains(result.err, "ENXIO")) << result.err;
}

TEST(Run, NamesAGuardianThatIsGone) {
  Running job({"run", "-n", "2", "sh", "-c",
               "kill -9 $(cat /proc/$PPID/task/$PPID/children | cut -d' ' -f1); sleep 0.3"});
  const Result result = job.wait();
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "the guardian (pid ")) << result.err;
}

}  // namespace
}  // namespace tutti::launcher
