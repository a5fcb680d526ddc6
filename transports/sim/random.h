#pragma once

// The network's dice. Own arithmetic, because the standard distributions differ between libraries
// and a seed must mean the same run everywhere.

#include <cstdint>

namespace tutti::transports::sim {

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators").
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
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
