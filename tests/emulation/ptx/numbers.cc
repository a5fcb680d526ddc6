// Conversions and powers of two; see include/tutti/cuda/ptx/numbers.cuh.

#include "tests/emulation/ptx/numbers.h"

#include <cmath>
#include <limits>

#include "tests/emulation/state.h"

namespace tutti::emulation {

uint16_t toF16(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }

uint16_t toBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

namespace {

/// An 8-bit floating type: `mantissa` bits, exponents offset by `bias`, the largest number finite.
struct Float8 {
  int mantissa, bias;
  uint8_t largest, nan;
};
constexpr Float8 kE4m3{3, 7, 0x7e, 0x7f};
constexpr Float8 kE5m2{2, 15, 0x7b, 0x7f};

/// The magnitude that `bits` stand for, the sign left out.
double magnitude(const Float8& type, int bits) {
  const int exponent = bits >> type.mantissa, fraction = bits & ((1 << type.mantissa) - 1);
  if (exponent == 0) return std::ldexp(fraction, 1 - type.bias - type.mantissa);
  return std::ldexp((1 << type.mantissa) + fraction, exponent - type.bias - type.mantissa);
}

uint8_t toFloat8(const Float8& type, float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return type.nan;
  const double wanted = std::fabs(static_cast<double>(value));
  if (wanted >= magnitude(type, type.largest)) return sign | type.largest;
  int below = 0;  // the largest that is not above
  for (int bit = 64; bit > 0; bit /= 2)
    if (below + bit <= type.largest && magnitude(type, below + bit) <= wanted) below += bit;
  const double down = wanted - magnitude(type, below), up = magnitude(type, below + 1) - wanted;
  return static_cast<uint8_t>(sign |
                              (up < down || (up == down && below % 2 == 1) ? below + 1 : below));
}

uint16_t toHalf(const Float8& type, uint8_t bits) {
  const int rest = bits & 0x7f;
  const uint16_t sign = static_cast<uint16_t>((bits & 0x80) << 8);
  if (rest > type.largest) {
    const bool infinite = type.mantissa == 2 && rest == 0x7c;
    return infinite ? static_cast<uint16_t>(sign | 0x7c00) : 0x7fff;
  }
  return static_cast<uint16_t>(sign | toF16(static_cast<float>(magnitude(type, rest))));
}

uint16_t pack(const Float8& type, float low, float high) {
  return static_cast<uint16_t>(toFloat8(type, low) | toFloat8(type, high) << 8);
}
uint32_t unpack(const Float8& type, uint16_t pair) {
  return toHalf(type, static_cast<uint8_t>(pair)) |
         uint32_t(toHalf(type, static_cast<uint8_t>(pair >> 8))) << 16;
}

}  // namespace
}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

uint32_t packBf16(float low, float high, Site) {
  return toBf16(low) | uint32_t(toBf16(high)) << 16;
}
uint32_t packF16(float low, float high, Site) { return toF16(low) | uint32_t(toF16(high)) << 16; }
float widenF16(uint16_t half, Site) { return fromF16(half); }
uint32_t roundTf32(float value, Site) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::isfinite(value) ? (bits + 0x1000) & ~0x1fffu : bits;
}
float exp2Approximate(float x, Site) {
  const float power = std::exp2(x);  // of what is denormal 1, as of 0
  return power < std::numeric_limits<float>::min() ? 0.0f : power;
}
uint16_t packE4m3(float low, float high, Site) { return pack(kE4m3, low, high); }
uint16_t packE5m2(float low, float high, Site) { return pack(kE5m2, low, high); }
uint32_t unpackE4m3(uint16_t pair, Site) { return unpack(kE4m3, pair); }
uint32_t unpackE5m2(uint16_t pair, Site) { return unpack(kE5m2, pair); }

}  // namespace tutti::cuda::ptx
