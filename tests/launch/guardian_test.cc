// The guardian ends the groups that it knows, and the launcher never waits for it for long.

#include "src/launch/guardian.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <optional>

#include "tests/support/child_processes.h"
#include "tests/support/run_tutti.h"

namespace tutti::launcher {
namespace {

using std::chrono::seconds;

/// This process's only child.
pid_t onlyChild() {
  pid_t child = -1;
  std::ifstream("/proc/self/task/" + std::to_string(getpid()) + "/children") >> child;
  return child;
}

/// A process with a group of its own, which sleeps.
pid_t sleeper() {
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pause();
    _exit(0);
  }
  setpgid(pid, pid);
  return pid;
}

TEST(Guardian, KillsTheGroupsThatItStillKnows) {
  const int code = tests::inChild([] {
    const pid_t known = sleeper(), removed = sleeper();  // without a copy of the guardian's pipe
    std::optional<Guardian> guardian(std::in_place, 4);
    guardian->add(known);
    guardian->add(removed);
    guardian->remove(removed);
    guardian.reset();
    int status = 0;
    if (waitpid(known, &status, 0) != known || !WIFSIGNALED(status)) return 1;
    if (waitpid(removed, &status, WNOHANG) != 0) return 2;
    return kill(removed, SIGKILL) == 0 ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
}

TEST(Guardian, ThatIsStoppedIsNotWaitedFor) {
  const int code = tests::inChild([] {
    std::optional<Guardian> guardian(std::in_place, 4);
    const pid_t pid = onlyChild();
    if (kill(pid, SIGSTOP) != 0) return 1;
    guardian.reset();
    return alive(pid) ? 2 : 0;
  });
  EXPECT_EQ(code, 0);
}

TEST(Guardian, ThatWasKilledIsNamedOnce) {
  const int code = tests::inChild([] {
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) return 1;
    Guardian guardian(4);
    const pid_t pid = onlyChild();
    if (kill(pid, SIGKILL) != 0 || !eventually([&] { return !alive(pid); }, seconds(20))) return 2;
    if (!guardian.takeTrouble().empty()) return 3;
    guardian.add(getpid());
    if (!contains(guardian.takeTrouble(), "has ended")) return 4;
    guardian.remove(getpid());
    return guardian.takeTrouble().empty() ? 0 : 5;
  });
  EXPECT_EQ(code, 0);
}

// A pipe holds 64 KiB at most, of four bytes each.
TEST(Guardian, ThatDoesNotReadIsKilled) {
  const int code = tests::inChild([] {
    Guardian guardian(4);
    const pid_t pid = onlyChild();
    if (kill(pid, SIGSTOP) != 0) return 1;
    for (int i = 0; i < 20'000; ++i) guardian.remove(getpid());
    if (!contains(guardian.takeTrouble(), "does not answer and is killed")) return 2;
    return eventually([&] { return !alive(pid); }, seconds(20)) ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tutti::launcher
