#pragma once

// Ranks as real processes for tests: forked from a process without threads, watched with deadlines,
// and killed at the end whatever happens. A rank's body gets its rank and the job's id, may print
// lines for the parent, and returns an exit code.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <tutti/communicator.h>

#include "tests/support/child_processes.h"

namespace tutti::tests {

class RankProcesses {
 public:
  /// Called in the child. What it prints with `say` the parent reads with output().
  struct Context {
    int rank;
    int size;
    UniqueId id;
    std::function<void(const std::string& line)> say;
    /// Joins the job; options may hold anything but id, rank and size.
    Communicator join(CommunicatorOptions options = {}) const;
  };
  using Body = std::function<int(const Context&)>;

  /// `prepare` comes first in each child, before it has the id: it may move it to another host.
  RankProcesses(int size, Body body, std::function<void(int rank)> prepare = {});
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  pid_t pid(int rank) const { return processes_.pid(rank); }
  void signal(int rank, int number) const { processes_.signal(rank, number); }
  /// True when `line` has been printed by `rank` within the time.
  bool awaitLine(int rank, const std::string& line, std::chrono::milliseconds within);
  /// Exit code, 128 + signal, or -1 when the rank is still running after `within`.
  int wait(int rank, std::chrono::milliseconds within);
  /// Everything that `rank` has said so far; complete once it was waited for.
  std::string output(int rank);
  /// Waits for all; true when every exit code is 0. Prints what failing ranks said.
  bool allSucceed(std::chrono::milliseconds within);

 private:
  struct Rank {
    int readEnd = -1;
    std::string text;
  };
  void drain(Rank& rank);
  std::vector<Rank> ranks_;
  ChildProcesses processes_;
};

}  // namespace tutti::tests
