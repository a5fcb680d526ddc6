#pragma once

// How shared memory is swizzled, by address.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation {

/// Bytes of a row of a swizzle's atom; 16 without one.
constexpr uint32_t widthBytes(cuda::ptx::Swizzle swizzle) {
  switch (swizzle) {
    case cuda::ptx::Swizzle::Bytes128: return 128;
    case cuda::ptx::Swizzle::Bytes64: return 64;
    case cuda::ptx::Swizzle::Bytes32: return 32;
    default: return 16;
  }
}

/// After so many bytes the pattern repeats: eight rows.
constexpr uint32_t atomBytes(cuda::ptx::Swizzle swizzle) { return 8 * widthBytes(swizzle); }

/// Bits 4 and up, as many as the width has above 16 bytes, XORed with as many from bit 7 on.
constexpr uint32_t swizzled(uint32_t address, cuda::ptx::Swizzle swizzle) {
  const uint32_t mask = widthBytes(swizzle) / 16 - 1;
  return address ^ ((address >> 7 & mask) << 4);
}

}  // namespace tutti::emulation
