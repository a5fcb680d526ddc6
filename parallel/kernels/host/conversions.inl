// What of 16 bits becomes float32, and back, for the instruction set that this file is compiled
// for: plain loops, which the compiler vectorizes. Included by elementwise.inl.

#include <stdint.h>

namespace tutti::parallel::host {
namespace {

// Every lane function is inlined: a vector never crosses a call, so its calling convention, which
// differs between instruction sets, does not matter.
#define TUTTI_INLINE inline __attribute__((always_inline))

TUTTI_INLINE float asFloat(uint32_t bits) { return __builtin_bit_cast(float, bits); }
TUTTI_INLINE uint32_t asBits(float value) { return __builtin_bit_cast(uint32_t, value); }

TUTTI_INLINE float widenedBrain(uint16_t bits) { return asFloat(uint32_t{bits} << 16); }

// Adding half of what is cut off, less one if the last bit that stays is even, rounds to nearest
// even. It would turn a NaN with only low bits into infinity, so those get a bit that stays.
TUTTI_INLINE uint16_t narrowedBrain(float value) {
  const uint32_t bits = asBits(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>(value == value ? rounded : (bits >> 16 | 0x40));
}

// Shifted to where float32 has them, exponent and mantissa are a number that is too small by 2^112,
// also where the exponent is 0; all of its bits set stay so.
TUTTI_INLINE float widenedHalf(uint16_t bits) {
  const uint32_t size = (bits & 0x7fffu) << 13;
  const uint32_t scaled = asBits(asFloat(size) * 0x1p112f);
  const uint32_t special = size >= 0x7c00u << 13 ? 0x7f800000u : 0;
  return asFloat((bits & 0x8000u) << 16 | scaled | special);
}

// Below 2^-14, adding 0.5 has the processor round to a multiple of 2^-24, the least there is; the
// others as in bfloat16.
TUTTI_INLINE uint16_t narrowedHalf(float value) {
  const uint32_t bits = asBits(value), size = bits & 0x7fffffffu;
  const uint32_t least = asBits(asFloat(size) + 0.5f) - asBits(0.5f);
  const uint32_t rounded = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
  const uint32_t finite = size < 113u << 23 ? least : rounded;
  const uint32_t special = size > 0x7f800000u ? (0x7e00u | (size >> 13 & 0x3ffu)) : 0x7c00u;
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | (size < 0x477ff000u ? finite : special));
}

void widenBrain(const uint16_t* __restrict from, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = widenedBrain(from[i]);
}
void narrowBrain(const float* __restrict from, uint16_t* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = narrowedBrain(from[i]);
}
void widenHalf(const uint16_t* __restrict from, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = widenedHalf(from[i]);
}
void narrowHalf(const float* __restrict from, uint16_t* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = narrowedHalf(from[i]);
}

}  // namespace
}  // namespace tutti::parallel::host
