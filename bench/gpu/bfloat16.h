#pragma once

// bfloat16 as it is stored, the upper half of float32.

#include <bit>
#include <cstdint>

namespace tutti::bench {

/// Rounded to nearest even; for numbers that are finite.
inline uint16_t toBFloat16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float fromBFloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace tutti::bench
