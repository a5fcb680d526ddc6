#pragma once

// One attempt at a job while it runs: its ranks, their output, the signals passed on, and its end.
// One thread, one poll().
//
//   running --a rank fails, or SIGINT, SIGTERM, SIGHUP--> ending --grace period, or the signal
//   again--> killing --all have ended, or the kernel holds one--> writing what is left --> done
//
// Where ranks keep going, it runs on when a rank fails, until all have ended.

#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/launch.h>

#include "src/launch/guardian.h"
#include "src/launch/input_relay.h"
#include "src/launch/line_relay.h"
#include "src/launch/rank_process.h"
#include "src/launch/signals.h"

namespace tutti::launcher {

class Job {
 public:
  /// `path` is the file to execute; `restart` counts the attempts before this one. The references
  /// must outlive the job.
  Job(const LaunchOptions& options, std::string path, std::string uniqueId, int restart,
      SignalCollector& signals);
  /// Kills what is left, as after an exception.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  struct Outcome {
    int exitCode = 0;
    bool again = false;  ///< it failed, and is to be started once more
  };
  /// Nothing of the job is left when it returns or throws.
  Outcome run();

 private:
  using Clock = std::chrono::steady_clock;

  struct Failure {
    int rank = 0;
    pid_t pid = 0;
    std::string how;
    int exitCode = 1;
    bool notStarted = false;  ///< the program could not be executed
    double seconds = 0;       ///< since the start of the job
  };

  void startRanks();
  void startRank(int rank, base::Deadline deadline);
  void failStart(int rank);
  void pollOnce();
  int pollMs() const;
  void sayTroubles();
  void send(size_t rank, int signal, bool alone = false);
  void passOn(const ReceivedSignal& signal);
  void noteEnds();
  void fail(Failure failure);
  void sayWhoGoesOn(const std::vector<size_t>& failed);
  void beginEnding();
  void killWhenOverdue();
  bool heldForLong() const;
  void leaveHeldRanks();
  bool readerIsLost() const;
  void finishRelays();
  void writeRest();
  void say(const std::string& line);
  void report();
  bool decideOnAnother();
  int exitCode();
  std::vector<std::string> tailOf(int rank) const;
  int runningRanks() const;
  bool relaysOpen() const;

  const LaunchOptions& options_;
  std::string path_, uniqueId_;
  int restart_;
  std::string outputFolder_;  ///< of this attempt; empty for none
  int cores_;
  Clock::time_point start_ = Clock::now();
  SignalCollector& signals_;
  Guardian guardian_;
  InputRelay input_;
  Outlets outlets_;
  std::vector<Tail> tails_;
  std::vector<std::unique_ptr<LineRelay>> relays_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::optional<Failure> failure_;
  std::optional<Clock::time_point> killAt_;
  bool killed_ = false;
  int interruptedBy_ = 0;  ///< the signal to this process that ended the job
  Clock::time_point interruptedAt_;
  int requests_ = 0;                   ///< signals to end, those of one moment counting once
  std::optional<int> settlesSince_;    ///< requests_ when the last rank had ended
  Clock::time_point tookAt_ = start_;  ///< when somebody last read from the outlets
  bool lossSaid_[2] = {false, false};
  bool refusalSaid_ = false;
};

}  // namespace tutti::launcher
