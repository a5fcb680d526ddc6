#pragma once

// The network's dice. Own arithmetic, because the standard distributions differ between libraries
// and a seed must mean the same run everywhere.

#include <cstdint>

#include "src/base/integers.h"

namespace tutti::transports::sim {

/// SplitMix64.
class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    const uint64_t number = base::mixBits(state_);
    state_ += base::kMixStep;
    return number;
  }
  /// Uniform in [low, high]. (The bias of the remainder is below 2^-30 for the ranges used here.)
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % (static_cast<uint64_t>(high - low) + 1));
  }
  bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1p-53 < probability;
  }

 private:
  uint64_t state_;
};

}  // namespace tutti::transports::sim
