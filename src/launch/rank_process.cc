#include "src/launch/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "src/base/check.h"
#include "src/base/pipe.h"
#include "src/launch/signals.h"

namespace tutti::launcher {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

struct Prepared {
  const char* path;
  char** arguments;
  char** environment;
  int streams[3];
  int report;  ///< closed by a successful exec; gets errno otherwise
  pid_t parent;
};

/// The child's side, between fork and exec: only calls that are safe in a signal handler, because
/// this process may have had other threads.
[[noreturn]] void become(const Prepared& prepared) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != prepared.parent) _exit(127);  // it died before the request was in place
  // What this process ignores (nohup) the program ignores too, but the launcher's own SIGPIPE.
  struct sigaction plain = {}, now = {};
  plain.sa_handler = SIG_DFL;
  for (int number : kPassedOn)
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      sigaction(number, &plain, nullptr);
  sigaction(SIGPIPE, &plain, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int i = 0; i < 3; ++i) dup2(prepared.streams[i], i);
  execve(prepared.path, prepared.arguments, prepared.environment);
  const int error = errno;
  if (write(prepared.report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

/// A copy above 2, so that placing one stream cannot overwrite another one's source. Of a stream
/// that this process was started without: nothing to read, and nowhere to write to.
base::FileDescriptor copyAbove(int fd) {
  if (fcntl(fd, F_GETFD) < 0)
    return base::FileDescriptor(TUTTI_SYSCALL(open("/dev/null", O_RDWR | O_CLOEXEC)));
  return base::FileDescriptor(TUTTI_SYSCALL(fcntl(fd, F_DUPFD_CLOEXEC, 3)));
}

int readReport(int fd) {
  int error = 0;
  ssize_t bytes = 0;
  do {
    bytes = read(fd, &error, sizeof error);
  } while (bytes < 0 && errno == EINTR);
  return bytes == static_cast<ssize_t>(sizeof error) ? error : 0;
}

}  // namespace

std::string RankEnd::describe() const {
  if (hidden) return "ended, but another thread of this process has reaped it, so nobody knows how";
  if (!killed) return base::message("exited with code ", status);
  const char* name = sigabbrev_np(status);
  return base::message("was killed by signal ", status, " (SIG", name ? name : "?", ")");
}

RankProcess::RankProcess(const Start& start, Guardian& guardian) : guardian_(guardian) {
  const auto arguments = pointers(start.arguments), environment = pointers(start.environment);
  const auto input = copyAbove(start.input), output = copyAbove(start.output),
             error = copyAbove(start.error);
  base::Pipe execReport = base::makePipe();
  const Prepared prepared = {start.path.c_str(),
                             const_cast<char**>(arguments.data()),
                             const_cast<char**>(environment.data()),
                             {input.get(), output.get(), error.get()},
                             execReport.writeEnd.get(),
                             getpid()};
  // All signals wait meanwhile: a handler of this process must not run in the child.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  const int forkError = errno;
  if (pid == 0) become(prepared);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) base::failSyscall("fork", forkError, "starting a rank");
  pid_ = pid;
  setpgid(pid, pid);  // both sides do it: neither can rely on the other having run
  guardian_.add(pid);
  pidfd_ = base::FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd_) {
    const int failure = errno;
    reap(true);
    if (failure != ESRCH) base::failSyscall("pidfd_open", failure, "watching a rank");
  }
  execReport.writeEnd.reset();
  execError_ = readReport(execReport.readEnd.get());
}

RankProcess::~RankProcess() {
  if (!end_ && pid_ > 0) reap(true);
}

void RankProcess::signal(int number) const {
  if (!end_) kill(-pid_, number);
}

void RankProcess::signalAlone(int number) const {
  if (!end_) kill(pid_, number);
}

void RankProcess::reap(bool wait) {
  if (wait) kill(-pid_, SIGKILL);
  siginfo_t info = {};
  int result = 0;
  do {
    result = waitid(P_PID, pid_, &info, WEXITED | WNOWAIT | (wait ? 0 : WNOHANG));
  } while (result < 0 && errno == EINTR);
  if (result == 0 && !wait && info.si_pid == 0) return;
  if (result < 0) {  // another thread has reaped it: its number may be somebody else's now
    guardian_.remove(pid_);
    end_ = RankEnd{.hidden = true};
    pidfd_.reset();
    return;
  }
  kill(-pid_, SIGKILL);  // what it started; its own entry still keeps the group's number taken
  guardian_.remove(pid_);
  siginfo_t again = {};  // another thread may reap it now: then this says nothing
  while (waitid(P_PID, pid_, &again, WEXITED) < 0 && errno == EINTR) {
  }
  end_ = RankEnd{false, info.si_code != CLD_EXITED, info.si_status};
  pidfd_.reset();
}

void RankProcess::reapIfEnded() {
  if (!end_) reap(false);
}

}  // namespace tutti::launcher
