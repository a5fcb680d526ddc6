#pragma once

// One rank as a process: how it is started, how it ends, and that nothing of it stays.

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/file_descriptor.h"
#include "src/launch/guardian.h"

namespace tutti::launcher {

/// How long a process that was killed is waited for. The kernel may hold it for longer, in a driver
/// or a file system that does not answer.
constexpr std::chrono::milliseconds kKilledEndsIn{5000};

/// What a rank starts with. Descriptors are borrowed.
struct Start {
  std::string path;                    ///< the file to execute
  std::vector<std::string> arguments;  ///< with the name of the program
  std::vector<std::string> environment;
  int input = 0, output = 1, error = 2;
};

/// Why a program was not executed: the call that failed, and its errno.
struct StartError {
  enum Call { None, Setpgid, Prctl, Sigaction, Sigprocmask, Dup2, Execve } call = None;
  int error = 0;
  std::string describe() const;  ///< "execve: Permission denied"
};

/// How a process ended, as waitid() tells it.
struct RankEnd {
  bool hidden = false;  ///< somebody else in this process has reaped it: counts as exit code 1
  bool killed = false;  ///< by a signal
  int status = 0;       ///< exit code, or the signal
  bool failed() const { return hidden || killed || status != 0; }
  int exitCode() const { return hidden ? 1 : killed ? 128 + status : status; }
  std::string describe() const;  ///< "exited with code 3", "was killed by signal 9 (SIGKILL)"
};

class RankProcess {
 public:
  /// Starts it in a process group of its own, to die with this thread's process. Throws System
  /// when no process can be had; a program that cannot be executed shows in startError(), at once
  /// where the kernel says so by `deadline`, else when the process ends.
  RankProcess(const Start& start, Guardian& guardian, base::Deadline deadline);
  /// Kills what is left and reaps it, unless the kernel holds it for longer than kKilledEndsIn.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// Readable when it has ended. -1 once reaped, and where there is nothing to poll: the kernel has
  /// no pidfd, or a debugger holds the ended process. Then reapIfEnded() tells.
  int pidfd() const { return held_ ? -1 : pidfd_.get(); }
  const std::optional<StartError>& startError() const { return startError_; }
  bool running() const { return !end_; }
  const std::optional<RankEnd>& end() const { return end_; }
  /// To the rank and everything it started; nothing when it has ended. Returns 0 or why it was not
  /// sent, an errno: EPERM, as the rank runs as another user.
  int signal(int number);
  /// To the rank alone: for signals that whatever helps it may not know, and would die of.
  int signalAlone(int number) const;
  /// Takes note of its end, if it has come, and kills what it had started.
  void reapIfEnded();

 private:
  int send(pid_t to, int number) const;
  void watch();
  void reap();
  void kill();
  void readReport();

  Guardian& guardian_;
  pid_t pid_ = -1;
  base::FileDescriptor pidfd_;
  base::FileDescriptor report_;  ///< closed by a successful exec; else it has a StartError's parts
  std::optional<base::Deadline> killedEndsBy_;
  bool held_ = false;  ///< it has ended, but cannot be reaped yet
  std::optional<StartError> startError_;
  std::optional<RankEnd> end_;
};

}  // namespace tutti::launcher
