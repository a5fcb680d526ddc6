#pragma once

// How long what is short waits for a peer before it becomes a general operation.

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "src/base/backoff.h"

namespace tutti::executor {

/// First it looks with a pause between looks, then with a yield. How often it pauses it learns: as
/// often as a peer on another core may need, and hardly where the peer that it waits for runs on
/// this core, which only a yield gives to that one.
class Patience {
 public:
  /// `hasCore`: ranks are not more than cores.
  explicit Patience(bool hasCore)
      : most_(hasCore ? kMost : 0), spins_(most_), left_(spins_ + kYields) {}

  /// Waits before another look; false when there is to be none. Then it starts over.
  bool wait() {
    if (left_ == 0) {
      left_ = spins_ + kYields;
      return false;
    }
    if (--left_ >= kYields) {
      base::cpuRelax();
    } else {
      const auto begin = std::chrono::steady_clock::now();
      ::sched_yield();
      yield_ = std::chrono::steady_clock::now() - begin;
    }
    return true;
  }
  /// A look was not in vain; it starts over.
  void found() {
    if (left_ < kYields) learn(yield_);
    left_ = spins_ + kYields;
  }
  /// From the yield after which a look was not in vain. It was long if another thread ran
  /// meanwhile, which was the peer, unless it was as long as one runs that does not yield.
  void learn(std::chrono::nanoseconds yield) {
    const bool peerIsHere = yield >= kShortest && yield <= kLongest;
    spins_ =
        peerIsHere ? std::max(spins_ / 2, std::min(kLeast, most_)) : std::min(2 * spins_, most_);
  }
  uint32_t spins() const { return spins_; }  ///< pauses ahead of the first yield

  static constexpr uint32_t kMost = 200, kLeast = 16, kYields = 64;

 private:
  static constexpr std::chrono::nanoseconds kShortest = std::chrono::microseconds(1),
                                            kLongest = std::chrono::microseconds(100);
  uint32_t most_, spins_;
  uint32_t left_;
  std::chrono::nanoseconds yield_{0};  // the last one
};

}  // namespace tutti::executor
