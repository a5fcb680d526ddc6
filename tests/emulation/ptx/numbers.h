#pragma once

// Numbers in the formats of tensor cores, by bits.

#include <bit>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tutti::emulation {

inline float fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
float fromF16(uint16_t bits);
/// A float with the bits cleared that tf32 does not have.
inline float fromTf32(uint32_t bits) { return std::bit_cast<float>(bits & ~0x1fffu); }

/// To nearest, ties to even.
uint16_t toBf16(float value);
uint16_t toF16(float value);

}  // namespace tutti::emulation
