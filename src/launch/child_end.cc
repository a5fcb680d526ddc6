#include "src/launch/child_end.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace tutti::launcher {

// waitid() knows no deadline, and a pidfd is not to be had everywhere: so it looks, and naps in
// between, longer each time up to 20 ms.
bool endsBy(pid_t pid, base::Deadline deadline) {
  for (auto nap = std::chrono::microseconds(50);; nap = std::min(nap * 2, decltype(nap)(20'000))) {
    siginfo_t info = {};
    const int result = waitid(P_PID, pid, &info, WEXITED | WNOWAIT | WNOHANG);
    if (result < 0 && errno != EINTR) return true;
    if (result == 0 && info.si_pid != 0) return true;
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace tutti::launcher
