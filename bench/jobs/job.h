#pragma once

// A benchmark job: the processes of one library, obeying commands (commands.h). It is started once
// and waits, blocked, while others are measured.

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "commands.h"

namespace tutti::bench {

/// One process: the ranks of a launcher's job, or one rank.
struct Process {
  std::vector<std::string> command;       ///< gets the job's directory as its last argument
  std::function<void()> prepare = [] {};  ///< first thing in the process
};

/// Of a job that may be at it still.
struct NoAnswer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Job {
 public:
  Job(std::string name, const std::vector<Process>& processes, int ranks,
      std::filesystem::path directory);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const std::string& name() const { return name_; }
  /// Median over calls of the slowest rank's nanoseconds. Throws NoAnswer after so long without
  /// one, and std::runtime_error when a rank ends or had a wrong result. Only after the last may it
  /// go on.
  double run(const worker_command& command, int patienceSeconds = 300);

 private:
  std::string fifo(const char* kind, int rank) const;
  void start(const Process& process);
  void awaitAnswer(int fd, int patienceSeconds);
  void readAll(int fd, void* data, size_t size, int patienceSeconds);

  std::string name_;
  std::filesystem::path directory_;
  std::vector<pid_t> processes_;
  std::vector<int> commands_, answers_;  // by rank
};

/// A port of the loopback that nobody uses now. Throws std::runtime_error when there is none.
int freePort();

struct Interval {
  double low, median, high;
};
/// The median of values and the order statistics that enclose it with at least 95% (binomial).
Interval medianInterval(std::vector<double> values);

}  // namespace tutti::bench
