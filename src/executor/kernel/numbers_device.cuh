#pragma once

// Elements as the kernel computes with them, to the bit as src/numbers/fold.h says. A codec turns a
// stored element into a lane and back:
//   Plain<T>      the element itself: integers, and float32 and float64 in sums and products
//   Widened<F>    float32 for a reduced type
//   Ordered<...>  of floating-point types in min and max: integers in the numbers' order, with -0
//                 below +0 and every NaN at the winning end
// narrow() makes every NaN the type's one; round() is narrow() and widen(). Additions and
// multiplications are intrinsics that the compiler does not contract.

#include <tutti/cuda/ptx.cuh>

namespace tutti::executor::kernel {

template <class T>
inline constexpr bool kIsFloat = false;
template <>
inline constexpr bool kIsFloat<float> = true;
template <>
inline constexpr bool kIsFloat<double> = true;

template <class T>
struct UnsignedOf {
  using Type = T;
};
template <>
struct UnsignedOf<int8_t> {
  using Type = uint8_t;
};
template <>
struct UnsignedOf<int16_t> {
  using Type = uint16_t;
};
template <>
struct UnsignedOf<int32_t> {
  using Type = uint32_t;
};
template <>
struct UnsignedOf<int64_t> {
  using Type = uint64_t;
};

TUTTI_DEVICE float quietNan(float) { return __uint_as_float(0x7fc00000u); }
TUTTI_DEVICE double quietNan(double) { return __longlong_as_double(0x7ff8000000000000ll); }

template <class T>
struct DevicePlain {
  using Stored = T;
  using Lane = T;
  static constexpr bool kRounds = false;
  static TUTTI_DEVICE Lane widen(Stored v) { return v; }
  static TUTTI_DEVICE Stored narrow(Lane v) {
    if constexpr (kIsFloat<T>) return v == v ? v : quietNan(v);
    return v;
  }
  static TUTTI_DEVICE Lane round(Lane v) { return v; }
};

/// The facts of a reduced type. kTop: infinity's bits, or the largest finite number's without one.
template <class BitsType, int kExponentBits, int kMantissa, bool kInfinity>
struct DeviceFormat {
  using Bits = BitsType;
  static constexpr int kBits = 8 * int(sizeof(Bits));
  static constexpr int kMantissaBits = kMantissa;
  static constexpr bool kHasInfinity = kInfinity;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr uint32_t kRebias = 127 - ((1u << (kExponentBits - 1)) - 1);
  static constexpr uint32_t kMask = (1u << (kBits - 1)) - 1;
  static constexpr uint32_t kTop = kInfinity ? kMask & ~((1u << kMantissa) - 1) : kMask - 1;
  static constexpr uint32_t kNan = kInfinity ? kTop | 1u << (kMantissa - 1) : kMask;
};
using Half = DeviceFormat<uint16_t, 5, 10, true>;
using Brain = DeviceFormat<uint16_t, 8, 7, true>;
using E4M3 = DeviceFormat<uint8_t, 4, 3, false>;
using E5M2 = DeviceFormat<uint8_t, 5, 2, true>;

template <class F>
struct DeviceWidened {
  using Stored = typename F::Bits;
  using Lane = float;
  static constexpr bool kRounds = true;

  static TUTTI_DEVICE Lane widen(Stored bits) {
    const uint32_t word = bits;
    if constexpr (F::kRebias == 0) return __uint_as_float(word << 16);
    const uint32_t sign = word >> (F::kBits - 1) << 31;
    const uint32_t magnitude = word & F::kMask;
    const uint32_t moved = magnitude << F::kShift;
    // A subnormal: give it the smallest normal's hidden bit and take that away again, exactly.
    constexpr uint32_t hidden = (F::kRebias + 1) << 23;
    uint32_t wide = moved + (F::kRebias << 23);
    if (magnitude < 1u << F::kMantissaBits)
      wide = __float_as_uint(__fadd_rn(__uint_as_float(moved + hidden), -__uint_as_float(hidden)));
    if constexpr (F::kHasInfinity)
      wide = magnitude >= F::kTop ? moved | 0x7f800000u : wide;
    else
      wide = magnitude > F::kTop ? 0x7fc00000u : wide;
    return __uint_as_float(sign | wide);
  }
  static TUTTI_DEVICE Stored narrow(Lane v) {
    return Stored(v == v ? narrowNumber(__float_as_uint(v)) : F::kNan);
  }
  static TUTTI_DEVICE Lane round(Lane v) { return widen(narrow(v)); }

 private:
  static TUTTI_DEVICE uint32_t narrowNumber(uint32_t bits) {
    // bfloat16 has float32's exponents: the carry of rounding goes where it belongs.
    if constexpr (F::kRebias == 0)
      return (bits + ((1u << (F::kShift - 1)) - 1) + (bits >> F::kShift & 1u)) >> F::kShift;
    const uint32_t sign = bits >> 31 << (F::kBits - 1);
    const uint32_t rounded = roundMagnitude(bits & 0x7fffffffu);
    if (rounded > F::kTop) return F::kHasInfinity ? sign | F::kTop : F::kNan;
    return sign | rounded;
  }
  /// To nearest even, with the exponent range unbounded upwards.
  static TUTTI_DEVICE uint32_t roundMagnitude(uint32_t magnitude) {
    if (magnitude < (F::kRebias + 1) << 23) {
      // Adding a number whose last place is the type's smallest subnormal rounds to that place.
      constexpr uint32_t anchor = (F::kRebias + F::kShift + 1) << 23;
      return __float_as_uint(__fadd_rn(__uint_as_float(magnitude), __uint_as_float(anchor))) -
             anchor;
    }
    const uint32_t moved = magnitude - (F::kRebias << 23);
    return (moved + ((1u << (F::kShift - 1)) - 1) + (moved >> F::kShift & 1u)) >> F::kShift;
  }
};

/// Key of a number: its bits as a signed integer, all but the sign flipped when negative. kTop is
/// the key above which positive patterns are NaN.
template <class Signed, Signed kTop, Signed kNan, bool kLeast>
struct DeviceOrdered {
  using Stored = Signed;
  using Lane = Signed;
  static constexpr bool kRounds = false;
  static constexpr Signed kHighest = Signed(~(uint64_t{1} << 63) >> (64 - 8 * sizeof(Signed)));
  static constexpr Signed kLowest = Signed(-kHighest - 1);
  static constexpr Signed kBottom = Signed(-kTop - 1);

  static TUTTI_DEVICE Signed flip(Signed v) { return v < 0 ? Signed(v ^ kHighest) : v; }
  static TUTTI_DEVICE Lane widen(Stored v) {
    const Signed key = flip(v);
    if constexpr (kLeast) return key > kTop ? kLowest : key;
    return key < kBottom ? kHighest : key;
  }
  static TUTTI_DEVICE Stored narrow(Lane key) {
    if constexpr (kLeast) return key < kBottom ? kNan : flip(key);
    return key > kTop ? kNan : flip(key);
  }
  static TUTTI_DEVICE Lane round(Lane v) { return v; }
};

struct DeviceAdd {
  static TUTTI_DEVICE float apply(float a, float b) { return __fadd_rn(a, b); }
  static TUTTI_DEVICE double apply(double a, double b) { return __dadd_rn(a, b); }
  template <class T>
  static TUTTI_DEVICE T apply(T a, T b) {
    using U = typename UnsignedOf<T>::Type;
    return T(U(U(a) + U(b)));
  }
};
struct DeviceMultiply {
  static TUTTI_DEVICE float apply(float a, float b) { return __fmul_rn(a, b); }
  static TUTTI_DEVICE double apply(double a, double b) { return __dmul_rn(a, b); }
  /// As unsigned, which wrap, and of 32 bits at least.
  template <class T>
  static TUTTI_DEVICE T apply(T a, T b) {
    using U = decltype(1u * typename UnsignedOf<T>::Type{});
    return T(U(a) * U(b));
  }
};
struct DeviceMinimum {
  template <class T>
  static TUTTI_DEVICE T apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct DeviceMaximum {
  template <class T>
  static TUTTI_DEVICE T apply(T a, T b) {
    return a < b ? b : a;
  }
};
struct DeviceBitAnd {
  template <class T>
  static TUTTI_DEVICE T apply(T a, T b) {
    return T(a & b);
  }
};
struct DeviceBitOr {
  template <class T>
  static TUTTI_DEVICE T apply(T a, T b) {
    return T(a | b);
  }
};
struct DeviceBitXor {
  template <class T>
  static TUTTI_DEVICE T apply(T a, T b) {
    return T(a ^ b);
  }
};
template <class Op>
struct DeviceLogical {
  template <class T>
  static TUTTI_DEVICE T apply(T a, T b) {
    return T(Op::apply(int(a != 0), int(b != 0)));
  }
};

/// Towards zero, clamped to the type's range; NaN gives 0.
template <class T>
TUTTI_DEVICE T truncate(double x) {
  constexpr bool isSigned = T(-1) < T(0);
  constexpr T most = T(isSigned ? ~uint64_t{0} >> (65 - 8 * sizeof(T)) : ~uint64_t{0});
  constexpr T least = isSigned ? T(-most - 1) : T(0);
  constexpr double end = 2.0 * double(T(1) + T((most - 1) / 2));
  if (x != x) return 0;
  if (x >= end) return most;
  if (x <= double(least)) return least;
  return T(x);
}

/// An element times PreMulSum's scalar, rounded to its type; by 1 it stays as it is.
template <class Codec>
TUTTI_DEVICE typename Codec::Lane scaled(typename Codec::Lane x, double scalar) {
  using Lane = typename Codec::Lane;
  if constexpr (sizeof(Lane) == 4 && kIsFloat<Lane>)
    return Codec::round(__fmul_rn(x, float(scalar)));
  else if constexpr (kIsFloat<Lane>)
    return __dmul_rn(x, scalar);
  else
    return scalar == 1.0 ? x : truncate<Lane>(double(x) * scalar);
}

template <class Codec>
TUTTI_DEVICE typename Codec::Lane divided(typename Codec::Lane x, int by) {
  using Lane = typename Codec::Lane;
  if constexpr (sizeof(Lane) == 4 && kIsFloat<Lane>)
    return __fdiv_rn(x, float(by));
  else if constexpr (kIsFloat<Lane>)
    return __ddiv_rn(x, double(by));
  else
    return Lane(x / Lane(by));
}

}  // namespace tutti::executor::kernel
