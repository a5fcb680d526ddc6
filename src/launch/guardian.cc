#include "src/launch/guardian.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/pipe.h"

namespace tutti::launcher {
namespace {

/// The guardian's whole life: reads groups, positive to add and negative to remove, until the
/// launcher's end of the pipe is closed. Between fork and _exit only calls that are safe in a
/// signal handler are made: the launcher may have had other threads.
[[noreturn]] void guard(int pipe, pid_t* groups, int capacity) {
  setsid();  // a terminal's Ctrl-C is for the launcher
  prctl(PR_SET_NAME, "tutti-guardian");
  for (int number = 1; number < NSIG; ++number)
    if (number != SIGKILL && number != SIGSTOP) signal(number, SIG_IGN);
  // Nobody may wait for the end of a pipe that only the guardian still holds.
  if (pipe > 0) close_range(0, pipe - 1, 0);
  close_range(pipe + 1, ~0u, 0);
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
  for (int i = 0; i < count; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

}  // namespace

Guardian::Guardian(int maxGroups) {
  base::Pipe pipe = base::makePipe();
  pipe_ = std::move(pipe.writeEnd);
  std::vector<pid_t> groups(maxGroups);
  pid_ = TUTTI_SYSCALL(fork());
  if (pid_ == 0) guard(pipe.readEnd.get(), groups.data(), maxGroups);
}

Guardian::~Guardian() {
  pipe_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// A guardian that was killed leaves a pipe without reader; the ranks still have the kernel's
// signal. The launcher ignores SIGPIPE while it runs.
void Guardian::add(pid_t group) {
  if (write(pipe_.get(), &group, sizeof group) < 0) return;
}

void Guardian::remove(pid_t group) { add(-group); }

}  // namespace tutti::launcher
