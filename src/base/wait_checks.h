#pragma once

// The checks of WaitCheck during one wait. The thread that drives an operation makes one per wait.

#include <chrono>
#include <cstdint>

namespace tutti::base {

class WaitChecks {
 public:
  /// After each poll. Throws what this thread's check throws, when it is time for one.
  void polled() {
    if (++polls_ % kPollsPerLook == 0) look();
  }

 private:
  // A poll that finds nothing sleeps for 1 ms at most.
  static constexpr uint32_t kPollsPerLook = 64;

  void look();

  uint32_t polls_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace tutti::base
