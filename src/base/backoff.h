#pragma once

// Waiting without hurting the others: spin for a moment when every rank has a core, then yield, and
// after about a millisecond nap, the longer the longer it takes: a rank that waits for seconds
// leaves its core to the others. Ranks may outnumber cores, so nobody only spins.

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tutti::base {

inline void cpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Backoff {
 public:
  explicit Backoff(bool spinFirst) : spins_(spinFirst ? kSpins : 0) {}

  void reset() { idle_ = 0; }

  /// Called each time a poll found nothing to do.
  void idle() {
    ++idle_;
    if (idle_ <= spins_) {
      cpuRelax();
      return;
    }
    const uint32_t waited = idle_ - spins_;
    if (waited == 1) yieldingSince_ = std::chrono::steady_clock::now();
    if (const auto length = napLength(waited); length.count() > 0) {
      const timespec nap{0, length.count()};
      ::clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
    } else {
      ::sched_yield();
    }
  }

 private:
  static constexpr uint32_t kSpins = 100;  // a few microseconds

  // While yielding the clock is looked at rarely: a yield is itself about as long as reading it.
  std::chrono::nanoseconds napLength(uint32_t waited) {
    using std::chrono::nanoseconds, std::chrono::microseconds, std::chrono::milliseconds;
    if (waited < 256 || (!naps_ && waited % 64 != 0)) return nanoseconds(0);
    const nanoseconds soFar = std::chrono::steady_clock::now() - yieldingSince_;
    naps_ = soFar > milliseconds(1);
    if (!naps_) return nanoseconds(0);
    return std::clamp<nanoseconds>(soFar / 64, microseconds(50), microseconds(250));
  }

  uint32_t spins_;
  uint32_t idle_ = 0;
  bool naps_ = false;
  std::chrono::steady_clock::time_point yieldingSince_;
};

}  // namespace tutti::base
