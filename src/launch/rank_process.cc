#include "src/launch/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/base/pipe.h"
#include "src/launch/child_end.h"
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

/// What the child writes into its report, at once.
struct FailedCall {
  StartError::Call call;
  int error;
};

/// The child's side, between fork and exec: only calls that are safe in a signal handler, because
/// this process may have had other threads.
[[noreturn]] void become(const Prepared& prepared) {
  const auto check = [&](StartError::Call call, int result) {
    if (result >= 0) return;
    const FailedCall report = {call, errno};
    _exit(write(prepared.report, &report, sizeof report) < 0 ? 126 : 127);
  };
  check(StartError::Setpgid, setpgid(0, 0));
  check(StartError::Prctl, prctl(PR_SET_PDEATHSIG, SIGKILL));
  if (getppid() != prepared.parent) _exit(127);  // it died before the request was in place
  // What this process ignores (nohup) the program ignores too, but the launcher's own SIGPIPE.
  struct sigaction plain = {}, now = {};
  plain.sa_handler = SIG_DFL;
  for (int number : kPassedOn) {
    check(StartError::Sigaction, sigaction(number, nullptr, &now));
    if (now.sa_handler != SIG_IGN) check(StartError::Sigaction, sigaction(number, &plain, nullptr));
  }
  check(StartError::Sigaction, sigaction(SIGPIPE, &plain, nullptr));
  sigset_t none;
  sigemptyset(&none);
  check(StartError::Sigprocmask, sigprocmask(SIG_SETMASK, &none, nullptr));
  for (int i = 0; i < 3; ++i) check(StartError::Dup2, dup2(prepared.streams[i], i));
  check(StartError::Execve, execve(prepared.path, prepared.arguments, prepared.environment));
  _exit(126);
}

/// A copy above 2, so that placing one stream cannot overwrite another one's source. Of a stream
/// that this process was started without: nothing to read, and nowhere to write to.
base::FileDescriptor copyAbove(int fd) {
  if (fcntl(fd, F_GETFD) < 0)
    return base::FileDescriptor(TUTTI_SYSCALL(open("/dev/null", O_RDWR | O_CLOEXEC)));
  return base::FileDescriptor(TUTTI_SYSCALL(fcntl(fd, F_DUPFD_CLOEXEC, 3)));
}

}  // namespace

std::string StartError::describe() const {
  constexpr const char* kCalls[] = {"",     "setpgid", "prctl", "sigaction", "sigprocmask",
                                    "dup2", "execve"};
  return base::message(kCalls[call], ": ", strerrordesc_np(error));
}

std::string RankEnd::describe() const {
  if (hidden) return "ended, but another thread of this process has reaped it, so nobody knows how";
  if (!killed) return base::message("exited with code ", status);
  const char* name = sigabbrev_np(status);
  return base::message("was killed by signal ", status, " (SIG", name ? name : "?", ")");
}

RankProcess::RankProcess(const Start& start, Guardian& guardian, base::Deadline deadline)
    : guardian_(guardian) {
  const auto arguments = pointers(start.arguments), environment = pointers(start.environment);
  const auto input = copyAbove(start.input), output = copyAbove(start.output),
             error = copyAbove(start.error);
  base::Pipe execReport = base::makePipe(O_NONBLOCK);
  const Prepared prepared = {start.path.c_str(),
                             const_cast<char**>(arguments.data()),
                             const_cast<char**>(environment.data()),
                             {input.get(), output.get(), error.get()},
                             execReport.writeEnd.get(),
                             getpid()};
  {
    const SignalsHeld held;
    pid_ = fork();
    if (pid_ == 0) become(prepared);
    if (pid_ < 0) base::failSyscall("fork", errno, "starting a rank");
  }
  report_ = std::move(execReport.readEnd);
  watch();
  execReport.writeEnd.reset();
  pollfd said = {.fd = report_.get(), .events = POLLIN, .revents = 0};
  if (poll(&said, 1, deadline.remainingMs()) > 0) readReport();
}

RankProcess::~RankProcess() {
  if (end_ || pid_ <= 0) return;
  kill();
}

/// Both sides make the group: neither can rely on the other having run. Here it is too late once
/// the program runs (EACCES) or has ended (ESRCH).
void RankProcess::watch() {
  const int grouped = setpgid(pid_, pid_) == 0 || errno == EACCES || errno == ESRCH ? 0 : errno;
  guardian_.add(pid_);
  if (grouped != 0) {
    kill();
    base::failSyscall("setpgid", grouped, "starting a rank");
  }
  // Where kernel or container have none, the launcher looks after its ranks by time.
  pidfd_ = base::FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
}

void RankProcess::readReport() {
  FailedCall report = {};
  ssize_t bytes = 0;
  do {
    bytes = read(report_.get(), &report, sizeof report);
  } while (bytes < 0 && errno == EINTR);
  if (bytes == static_cast<ssize_t>(sizeof report))
    startError_ = StartError{report.call, report.error};
  report_.reset();
}

int RankProcess::send(pid_t to, int number) const {
  if (end_ || ::kill(to, number) == 0 || errno == ESRCH) return 0;
  return errno;
}

int RankProcess::signal(int number) {
  if (number == SIGKILL && !killedEndsBy_) killedEndsBy_ = base::Deadline::after(kKilledEndsIn);
  return send(-pid_, number);
}

int RankProcess::signalAlone(int number) const { return send(pid_, number); }

void RankProcess::kill() {
  signal(SIGKILL);
  signalAlone(SIGKILL);  // before it has made its group
  if (endsBy(pid_, *killedEndsBy_)) reap();
}

void RankProcess::reap() {
  siginfo_t info = {};
  int result = 0;
  do {
    result = waitid(P_PID, pid_, &info, WEXITED | WNOWAIT | WNOHANG);
  } while (result < 0 && errno == EINTR);
  if (result == 0 && info.si_pid == 0) {
    pollfd ended = {.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    held_ = pidfd_ && poll(&ended, 1, 0) == 1;
    return;
  }
  if (result < 0) {  // another thread has reaped it: its number may be somebody else's now
    guardian_.remove(pid_);
    end_ = RankEnd{.hidden = true};
    pidfd_.reset();
    return;
  }
  signal(SIGKILL);  // what it started; its own entry still keeps the group's number taken
  guardian_.remove(pid_);
  siginfo_t again = {};  // another thread may reap it now: then this says nothing
  while (waitid(P_PID, pid_, &again, WEXITED | WNOHANG) < 0 && errno == EINTR) {
  }
  end_ = RankEnd{false, info.si_code != CLD_EXITED, info.si_status};
  pidfd_.reset();
  if (report_) readReport();
}

void RankProcess::reapIfEnded() {
  if (!end_) reap();
}

}  // namespace tutti::launcher
