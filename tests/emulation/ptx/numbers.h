#pragma once

// Numbers in the formats of tensor cores, by bits.

#include <bit>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tutti::emulation {

inline float fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
/// As GCC's conversion of _Float16, which is a call. A float has what is denormal here, too.
inline float fromF16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
  constexpr uint32_t kInfinity = 0x7c00u << 13, kQuiet = 0x400000;
  if (rest >= kInfinity)
    return std::bit_cast<float>(sign | 0x7f800000u | rest | (rest > kInfinity ? kQuiet : 0));
  const float magnitude = std::bit_cast<float>(rest) * 0x1p112f;  // the exponents' biases differ
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}
/// A float with the bits cleared that tf32 does not have.
inline float fromTf32(uint32_t bits) { return std::bit_cast<float>(bits & ~0x1fffu); }

/// To nearest, ties to even.
uint16_t toBf16(float value);
uint16_t toF16(float value);

}  // namespace tutti::emulation
