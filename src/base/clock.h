#pragma once

// Time as the protocols see it. Operations get a Clock by constructor, so that the simulator can
// run them on virtual time.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tutti::base {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t nowNs() const = 0;  ///< monotonic
};

class SteadyClock final : public Clock {
 public:
  int64_t nowNs() const override {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
};

/// Longer than anybody waits, and short enough that nanoseconds since boot cannot overflow.
inline constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365 * 100);

/// A point in time after which waiting ends.
class Deadline {
 public:
  static Deadline after(std::chrono::milliseconds duration) {
    return Deadline(std::chrono::steady_clock::now() + std::min(duration, kLongestWait));
  }
  bool passed() const { return std::chrono::steady_clock::now() >= at_; }
  /// What is left, at least 0; fits poll()'s argument.
  int remainingMs() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        at_ - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000'000));
  }

 private:
  explicit Deadline(std::chrono::steady_clock::time_point at) : at_(at) {}
  std::chrono::steady_clock::time_point at_;
};

}  // namespace tutti::base
