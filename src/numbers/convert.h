#pragma once

// Scalar conversions between float32 and the reduced-precision types, each a bit pattern in an
// unsigned integer. Widening is exact. Narrowing rounds to nearest even, keeps subnormals, and
// turns every NaN into a quiet NaN of the same sign that keeps the payload's upper bits. Overflow
// gives infinity; float8_e4m3 has no infinity, so that overflow and infinity give NaN there (the
// non-saturating conversion of the OCP 8-bit floating point specification): a sum that left the
// range must not pass for 448.

#include <bit>
#include <cstdint>

namespace tutti::numbers {

/// One IEEE-like format narrower than float32.
template <int ExponentBits, int MantissaBits, bool HasInfinity>
struct NarrowFormat {
  static constexpr int kBits = 1 + ExponentBits + MantissaBits;
  static constexpr int kBias = (1 << (ExponentBits - 1)) - 1;
  static constexpr int kRebias = 127 - kBias;       ///< to a float32 exponent
  static constexpr int kShift = 23 - MantissaBits;  ///< to a float32 mantissa
  static constexpr uint32_t kMagnitudeMask = (1u << (kBits - 1)) - 1;
  /// Magnitudes above this one are NaN: infinity, or the largest finite number without one.
  static constexpr uint32_t kTop =
      HasInfinity ? kMagnitudeMask & ~((1u << MantissaBits) - 1) : kMagnitudeMask - 1;
  static constexpr uint32_t kQuietNan =
      HasInfinity ? kTop | 1u << (MantissaBits - 1) : kMagnitudeMask;

  static constexpr float widen(uint32_t bits) {
    const uint32_t sign = (bits >> (kBits - 1) & 1) << 31;
    const uint32_t magnitude = bits & kMagnitudeMask;
    if (magnitude > kTop || (HasInfinity && magnitude == kTop)) {
      const uint32_t payload = magnitude << kShift & 0x7fffff;
      const uint32_t quiet = magnitude > kTop ? 0x400000u : 0u;
      return std::bit_cast<float>(sign | 0x7f800000u | payload | quiet);
    }
    if (kRebias != 0 &&
        magnitude >> MantissaBits == 0) {  // a subnormal is a small integer times a power of two
      constexpr float unit = std::bit_cast<float>(smallestExponentBits());
      const float value = static_cast<float>(magnitude) * unit;
      return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((magnitude << kShift) + (uint32_t{kRebias} << 23)));
  }

  static constexpr uint32_t narrow(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 31 << (kBits - 1);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | kQuietNan | (magnitude >> kShift & kPayloadMask);
    const uint32_t rounded = roundMagnitude(magnitude);
    if (rounded > kTop) return sign | (HasInfinity ? kTop : kQuietNan);
    return sign | rounded;
  }

 private:
  static constexpr uint32_t kPayloadMask = HasInfinity ? (1u << MantissaBits) - 1 : 0;

  /// float32's bits of the smallest subnormal, 2^(1 - bias - mantissa bits).
  static constexpr uint32_t smallestExponentBits() {
    constexpr int exponent = 1 - kBias - MantissaBits + 127;
    return exponent > 0 ? static_cast<uint32_t>(exponent) << 23 : 1u << (23 - 1 + exponent);
  }

  /// Nearest even magnitude with the exponent range unbounded upwards.
  static constexpr uint32_t roundMagnitude(uint32_t magnitude) {
    const int exponent = static_cast<int>(magnitude >> 23);
    if (exponent > kRebias || kRebias == 0) {
      const uint32_t moved = magnitude - (uint32_t{kRebias} << 23);
      return (moved + (1u << (kShift - 1)) - 1 + (moved >> kShift & 1)) >> kShift;
    }
    // A subnormal result: shift the significand, hidden bit included, and round what falls off.
    const int shift = kShift + kRebias + 1 - exponent;
    if (shift > 25) return 0;
    const uint32_t significand = (magnitude & 0x7fffff) | (exponent > 0 ? 0x800000u : 0u);
    const uint32_t half = 1u << (shift - 1);
    return (significand + half - 1 + (significand >> shift & 1)) >> shift;
  }
};

using Float16Format = NarrowFormat<5, 10, true>;
using BFloat16Format = NarrowFormat<8, 7, true>;
using Float8E4M3Format = NarrowFormat<4, 3, false>;
using Float8E5M2Format = NarrowFormat<5, 2, true>;

constexpr float fromFloat16(uint16_t bits) { return Float16Format::widen(bits); }
constexpr float fromBFloat16(uint16_t bits) { return BFloat16Format::widen(bits); }
constexpr float fromFloat8E4M3(uint8_t bits) { return Float8E4M3Format::widen(bits); }
constexpr float fromFloat8E5M2(uint8_t bits) { return Float8E5M2Format::widen(bits); }

constexpr uint16_t toFloat16(float x) { return static_cast<uint16_t>(Float16Format::narrow(x)); }
constexpr uint16_t toBFloat16(float x) { return static_cast<uint16_t>(BFloat16Format::narrow(x)); }
constexpr uint8_t toFloat8E4M3(float x) {
  return static_cast<uint8_t>(Float8E4M3Format::narrow(x));
}
constexpr uint8_t toFloat8E5M2(float x) {
  return static_cast<uint8_t>(Float8E5M2Format::narrow(x));
}

}  // namespace tutti::numbers
