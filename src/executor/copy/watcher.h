#pragma once

// The host's eye on a rank's streams, which wait without a deadline and check nothing themselves:
// reads by a stream of its own what they wait for and what has come, and when something is wrong
// gives up: tells the peers, and opens all words of this rank, so that what is enqueued runs to its
// end without an effect on others.

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/executor/copy/lane.h"
#include "src/executor/gpu_executor.h"
#include "transports/p2p/owned_memory.h"

namespace tutti::executor::copy {

class Watcher {
 public:
  /// `ground` outlives it.
  Watcher(const Ground& ground, uint64_t deadlineNs);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Lanes that are looked at, from now on: so many at least.
  void include(size_t lanes);
  /// Sees what the last look has read, and begins another one. After a failure opens again what
  /// peers have closed since.
  void look();
  void abort();
  /// As abort(), but no peer is told: what they need of this rank has come, and they may be gone.
  void leave();
  /// `operation`: how many had ended when it was last looked, modulo kCounted.
  std::optional<ExecutorFailure> failure() const;
  /// Whether a lane of an operation that has begun has not ended, as it is now; false when the rank
  /// has given up. Waits for the answer.
  bool isWaiting();
  /// Ranks for whom lanes have been seen to wait for so long.
  std::vector<int> awaited(std::chrono::nanoseconds since) const;
  /// Of the collective in which a lane has been seen to wait: how many operations had ended before
  /// it, modulo kCounted.
  std::optional<uint32_t> collectiveAwaitedIn() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// Of one lane: its state twice, and the mark that it waits for in between.
  struct LaneView {
    LaneState first;
    CopyMark mark;
    LaneState second;
  };
  struct Seen {
    LaneState state;
    uint32_t operation = 0;
    Clock::time_point since;
  };
  struct View;

  void begin();
  void judge();
  void judgeLane(size_t lane);
  void judgePoison(uint32_t poison);
  std::string where() const;
  static std::string describe(const LaneState& state);
  void end(const std::string& why, std::optional<CopyNotice> notice);
  /// Once, because of `peer`. With `notice` the peers are told.
  void giveUp(ErrorCode code, int peer, const std::string& what, std::optional<CopyNotice> notice);
  void tellPeers(StreamQueue& queue, const CopyNotice& notice) const;
  void open(StreamQueue& queue) const;

  const Ground& ground_;
  const uint64_t deadlineNs_;
  mutable std::mutex mutex_;
  std::optional<ExecutorFailure> failure_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<View> view_;
  bool isLooking_ = false;
  uint32_t ended_ = 0;  // operations, by the last look that is done; another one may be under way
  size_t lanes_ = 0, lanesLookedAt_ = 0;
  std::vector<Seen> seen_;
};

}  // namespace tutti::executor::copy
