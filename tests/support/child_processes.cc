#include "tests/support/child_processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "src/base/check.h"
#include "src/base/clock.h"

namespace tutti::tests {

void ChildProcesses::start(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t pid = TUTTI_SYSCALL(::fork());
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGPIPE, SIG_IGN);
    const int code = body();
    std::fflush(nullptr);
    ::_exit(code);
  }
  children_.push_back({pid, -1});
}

ChildProcesses::~ChildProcesses() {
  for (const Child& child : children_) {
    if (child.status >= 0) continue;
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
  }
}

void ChildProcesses::signal(int child, int number) const {
  if (children_[static_cast<size_t>(child)].status < 0) ::kill(pid(child), number);
}

int ChildProcesses::wait(int child, std::chrono::milliseconds within,
                         const std::function<void()>& meanwhile) {
  Child& c = children_[static_cast<size_t>(child)];
  const auto deadline = base::Deadline::after(within);
  while (c.status < 0) {
    if (meanwhile) meanwhile();
    int status = 0;
    if (::waitpid(c.pid, &status, WNOHANG) == c.pid)
      c.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    else if (deadline.passed())
      return -1;
    else
      ::usleep(1000);
  }
  return c.status;
}

int inChild(const std::function<int()>& body) {
  ChildProcesses processes;
  processes.start(body);
  return processes.wait(0, std::chrono::seconds(30));
}

}  // namespace tutti::tests
