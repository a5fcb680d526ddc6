#include "src/launch/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/pipe.h"
#include "src/launch/child_end.h"
#include "src/launch/signals.h"

namespace tutti::launcher {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kReads{1000};  ///< in which it reads what it is told, and ends when let go
/// Where close_range() is refused, descriptors from here on stay open: trying each takes time.
constexpr rlim_t kMostClosed = 1 << 16;

/// Closes all of first..last. Kernels before 5.9 and some containers refuse close_range().
void closeAll(unsigned first, unsigned last) {
  if (first > last || close_range(first, last, 0) == 0) return;
  rlimit limit = {};
  const rlim_t end = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : kMostClosed;
  for (rlim_t fd = first; fd <= last && fd < std::min(end, kMostClosed); ++fd)
    close(static_cast<int>(fd));  // most of them are not open
}

/// The guardian's whole life: reads groups, positive to add and negative to remove, until the
/// launcher's end of the pipe is closed. Between fork and _exit only calls that are safe in a
/// signal handler are made: the launcher may have had other threads.
[[noreturn]] void guard(int pipe, int launcherEnd, pid_t* groups, int capacity) {
  // Above all the launcher's end of the pipe: else it would wait for itself. Then what others wait
  // for the end of, so that nobody waits for a pipe that only the guardian still holds.
  close(launcherEnd);
  if (pipe > 0) closeAll(0, pipe - 1);
  closeAll(pipe + 1, ~0u);
  if (setsid() < 0) _exit(1);  // a terminal's Ctrl-C is for the launcher
  if (prctl(PR_SET_NAME, "tutti-guardian") < 0) _exit(1);
  for (int number = 1; number < NSIG; ++number)
    if (number != SIGKILL && number != SIGSTOP && signal(number, SIG_IGN) == SIG_ERR &&
        errno != EINVAL)  // the C library keeps two for itself
      _exit(1);
  int count = 0;
  pid_t entry = 0;
  while (true) {
    const ssize_t bytes = read(pipe, &entry, sizeof entry);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes != static_cast<ssize_t>(sizeof entry)) break;
    if (entry > 0) {
      if (count < capacity) groups[count++] = entry;
      continue;
    }
    for (int i = 0; i < count; ++i)
      if (groups[i] == -entry) groups[i--] = groups[--count];
  }
  int refused = 0;
  for (int i = 0; i < count; ++i) refused += kill(-groups[i], SIGKILL) < 0 && errno != ESRCH;
  _exit(refused > 0);
}

}  // namespace

Guardian::Guardian(int maxGroups) {
  base::Pipe pipe = base::makePipe();
  pipe_ = std::move(pipe.writeEnd);
  TUTTI_SYSCALL(fcntl(pipe_.get(), F_SETFL, O_NONBLOCK));
  std::vector<pid_t> groups(maxGroups);
  const SignalsHeld held;
  pid_ = fork();
  if (pid_ == 0) guard(pipe.readEnd.get(), pipe_.get(), groups.data(), maxGroups);
  if (pid_ < 0) base::failSyscall("fork", errno, "starting the guardian");
}

Guardian::~Guardian() {
  pipe_.reset();
  // One that is stopped, or was forked into a frozen group, is not waited for longer. Killed, its
  // last groups have only the kernel's signal; the launcher has ended them before this.
  if (!endsBy(pid_, base::Deadline::after(kReads)) &&
      (kill(pid_, SIGKILL) < 0 || !endsBy(pid_, base::Deadline::after(kReads))))
    return;
  while (waitpid(pid_, nullptr, WNOHANG) < 0 && errno == EINTR) {
  }
}

void Guardian::add(pid_t group) { tell(group); }

void Guardian::remove(pid_t group) { tell(-group); }

std::string Guardian::takeTrouble() { return std::exchange(trouble_, {}); }

// The launcher ignores SIGPIPE while it runs. A guardian that does not read must not learn later
// of numbers that are somebody else's by then, so it ends.
void Guardian::tell(pid_t entry) {
  if (!pipe_) return;
  const auto deadline = base::Deadline::after(kReads);
  while (true) {
    if (write(pipe_.get(), &entry, sizeof entry) == static_cast<ssize_t>(sizeof entry)) return;
    if (errno == EINTR) continue;
    if (errno != EAGAIN || deadline.passed()) break;
    pollfd room = {.fd = pipe_.get(), .events = POLLOUT, .revents = 0};
    if (poll(&room, 1, deadline.remainingMs()) < 0 && errno != EINTR) break;
  }
  const char* why = errno == EPIPE ? "has ended" : "does not answer and is killed";
  trouble_ =
      base::message("the guardian (pid ", pid_, ") ", why,
                    ": if this process is killed now, what the ranks have started outlives it");
  if (errno != EPIPE && kill(pid_, SIGKILL) < 0) trouble_ += ", and so may the guardian";
  pipe_.reset();
}

}  // namespace tutti::launcher
