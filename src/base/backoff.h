#pragma once

// Waiting without hurting the others: spin for a moment when every rank has a core, then yield, and
// after about a millisecond sleep in short naps. Ranks may outnumber cores, so nobody only spins.

#include <sched.h>
#include <time.h>

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
    if (shouldNap(waited)) {
      const timespec nap{0, 50'000};
      ::clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
    } else {
      ::sched_yield();
    }
  }

 private:
  static constexpr uint32_t kSpins = 100;  // a few microseconds

  // The clock is looked at rarely: a yield is itself about as long as reading it.
  bool shouldNap(uint32_t waited) {
    if (waited < 256) return false;
    if (waited % 64 == 0)
      nap_ = std::chrono::steady_clock::now() - yieldingSince_ > std::chrono::milliseconds(1);
    return nap_;
  }

  uint32_t spins_;
  uint32_t idle_ = 0;
  bool nap_ = false;
  std::chrono::steady_clock::time_point yieldingSince_;
};

}  // namespace tutti::base
