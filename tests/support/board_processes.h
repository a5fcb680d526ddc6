#pragma once

// Ranks as processes for tests below the communicator (rank_processes.h has those of one): a page
// of shared memory is their board, on which they leave what they have to say.

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <tutti/communicator.h>

#include "tests/support/child_processes.h"

namespace tutti::tests {

class BoardProcesses {
 public:
  static constexpr int kMaxRanks = 64;

  /// What a rank's process sees of the test.
  struct Board {
    std::atomic<int> published{0};
    std::atomic<int> go{0};
    std::byte id[128];
    struct Line {
      std::atomic<int> step{0};
      std::atomic<int64_t> saidNs{0};
      char text[1024];
    } lines[kMaxRanks];

    /// Makes the id here, or waits for it.
    void publish(const UniqueId& made);
    UniqueId awaitId();
    void reach(int rank, int step) { lines[rank].step.store(step); }
  };
  /// Returns what the rank has to say; an exception becomes "error CODE: TEXT".
  using Body = std::function<std::string(int rank, Board& board)>;

  BoardProcesses(int count, const Body& body);
  ~BoardProcesses();
  BoardProcesses(const BoardProcesses&) = delete;
  BoardProcesses& operator=(const BoardProcesses&) = delete;

  Board& board() { return *board_; }
  pid_t pid(int rank) const { return processes_.pid(rank); }
  void kill(int rank, int number) { processes_.signal(rank, number); }
  /// False when patience ended.
  bool awaitStep(int rank, int step);
  /// Waits for the ends of all processes; "killed by signal 9" and the like for those that say
  /// nothing, "hangs" for those that do not end.
  std::vector<std::string> results();
  /// When a rank had something to say: of what it waited for, and not of its process's end.
  std::chrono::steady_clock::time_point saidAt(int rank) const;

 private:
  Board* board_ = nullptr;
  ChildProcesses processes_;
};

}  // namespace tutti::tests
