#include "tests/launchers/kept.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/pipe.h"

namespace tutti::launchers {
namespace {

constexpr int kPatrolMs = 10;

int codeOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

/// As a session of its own, so that a terminal's Ctrl-C is for the program above.
class Keeper {
 public:
  explicit Keeper(int program) : program_(program) {
    setsid();
    TUTTI_SYSCALL(prctl(PR_SET_CHILD_SUBREAPER, 1));
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti_kept_XXXXXX").string();
    TUTTI_REQUIRE(mkdtemp(pattern.data()), "no folder can be made as ", pattern);
    folder_ = pattern;
    TUTTI_SYSCALL(chmod(pattern.c_str(), 0711));  // munge wants its socket to be within reach
    setenv("TMPDIR", pattern.c_str(), 1);
  }
  ~Keeper() {
    endAll();
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  /// Returns when the tests have ended, or the program above.
  int run(const std::function<int()>& body) {
    const pid_t tests = TUTTI_SYSCALL(fork());
    if (tests == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int code = body();
      std::fflush(nullptr);
      _exit(code);
    }
    std::optional<int> code;
    while (!code && !programEnded())
      reap([&](pid_t pid, int status) {
        if (pid == tests) code = codeOf(status);
      });
    return code.value_or(1);
  }

 private:
  static void reap(const std::function<void(pid_t, int)>& note) {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) note(pid, status);
  }
  bool programEnded() const {
    pollfd end = {.fd = program_, .events = POLLIN, .revents = 0};
    return poll(&end, 1, kPatrolMs) > 0;
  }
  /// What a killed process had started comes here, and is killed in its turn.
  void endAll() {
    const auto deadline = base::Deadline::after(std::chrono::seconds(20));
    const std::string id = std::to_string(getpid());
    while (!deadline.passed()) {
      std::ifstream children("/proc/" + id + "/task/" + id + "/children");
      for (pid_t child = 0; children >> child;) kill(child, SIGKILL);
      reap([](pid_t, int) {});
      if (waitpid(-1, nullptr, WNOHANG) < 0) return;
      usleep(1000 * kPatrolMs);
    }
    std::fputs("processes of the test cannot be ended\n", stderr);
  }

  int program_;
  std::filesystem::path folder_;
};

}  // namespace

int runKept(const std::function<int()>& body) {
  base::Pipe program = base::makePipe();  // its end tells the keeper that this process has gone
  const pid_t keeper = TUTTI_SYSCALL(fork());
  if (keeper == 0) {
    program.writeEnd.reset();
    const int code = Keeper(program.readEnd.get()).run(body);
    _exit(code);
  }
  program.readEnd.reset();
  int status = 0;
  TUTTI_SYSCALL(waitpid(keeper, &status, 0));
  return codeOf(status);
}

}  // namespace tutti::launchers
