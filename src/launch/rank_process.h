#pragma once

// One rank as a process: how it is started, how it ends, and that nothing of it stays.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/launch/guardian.h"

namespace tutti::launcher {

/// What a rank starts with. Descriptors are borrowed.
struct Start {
  std::string path;                    ///< the file to execute
  std::vector<std::string> arguments;  ///< with the name of the program
  std::vector<std::string> environment;
  int input = 0, output = 1, error = 2;
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
  /// when no process can be had; a program that cannot be executed shows in execError().
  RankProcess(const Start& start, Guardian& guardian);
  /// Kills what is left and reaps it.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  ///< readable when it has ended; -1 once reaped
  int execError() const { return execError_; }
  bool running() const { return !end_; }
  const std::optional<RankEnd>& end() const { return end_; }
  /// To the rank and everything it started; nothing when it has ended.
  void signal(int number) const;
  /// To the rank alone: for signals that whatever helps it may not know, and would die of.
  void signalAlone(int number) const;
  /// Takes note of its end, if it has come, and kills what it had started.
  void reapIfEnded();

 private:
  void reap(bool wait);

  Guardian& guardian_;
  pid_t pid_ = -1;
  base::FileDescriptor pidfd_;
  int execError_ = 0;
  std::optional<RankEnd> end_;
};

}  // namespace tutti::launcher
