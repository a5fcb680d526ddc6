#pragma once

// Arithmetic on unsigned integers that several folders need.

#include <cstdint>

namespace tutti::base {

/// The smallest multiple of `unit` that is not less than `value`.
constexpr uint64_t roundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// What SplitMix64 adds to its state for each number.
inline constexpr uint64_t kMixStep = 0x9e3779b97f4a7c15;

/// The number that SplitMix64 gives in state `x` (Steele, Lea, Flood: "Fast Splittable Pseudorandom
/// Number Generators"): every bit of the result depends on every bit of `x`.
constexpr uint64_t mixBits(uint64_t x) {
  x += kMixStep;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace tutti::base
