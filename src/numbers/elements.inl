// How stored elements become vector lanes and back, one codec per kind of type:
//   Plain<T>      lanes are the elements (integers; float32 and float64 in sums and products)
//   Widened<F>    reduced precision, lanes are float32
//   Ordered<...>  any floating-point type in min and max: lanes are signed integers whose order is
//                 the numbers' order, with -0 below +0 and every NaN moved to the winning end
// A codec has Lanes (a vector type), kLanes, kElementBytes, widen(), narrow() and round(); narrow()
// makes every NaN the canonical one, round() is narrow() and widen(). Included by kernels.inl.

template <class T>
inline constexpr bool kIsFloat = false;
template <>
inline constexpr bool kIsFloat<float> = true;
template <>
inline constexpr bool kIsFloat<double> = true;

template <class T>
struct Plain {
  static constexpr size_t kElementBytes = sizeof(T);
  static constexpr size_t kLanes = kVectorBytes / sizeof(T);
  using Lane = T;
  using Lanes = Vector<T, kLanes>;
  using Stored = Lanes;
  static TUTTI_INLINE Lanes widen(Stored v) { return v; }
  static TUTTI_INLINE Stored narrow(Lanes v) {
    if constexpr (kIsFloat<T>) {
      const Lanes nan = Lanes{} + static_cast<T>(__builtin_nan(""));  // positive, quiet
      return v == v ? v : nan;
    } else {
      return v;
    }
  }
  static TUTTI_INLINE Lanes round(Lanes v) { return v; }
};

/// The facts of a reduced type. kTop: infinity's bits, or the largest finite number's without one.
template <class BitsType, int ExponentBits, int MantissaBits, bool HasInfinity>
struct Format {
  using Bits = BitsType;
  static constexpr int kBits = 8 * sizeof(Bits);
  static constexpr int kMantissaBits = MantissaBits;
  static constexpr bool kHasInfinity = HasInfinity;
  static constexpr int kShift = 23 - MantissaBits;
  static constexpr uint32_t kRebias = 127 - ((1u << (ExponentBits - 1)) - 1);
  static constexpr uint32_t kMask = (1u << (kBits - 1)) - 1;
  static constexpr uint32_t kTop = HasInfinity ? kMask & ~((1u << MantissaBits) - 1) : kMask - 1;
  static constexpr uint32_t kNan = HasInfinity ? kTop | 1u << (MantissaBits - 1) : kMask;
};
using Half = Format<uint16_t, 5, 10, true>;
using Brain = Format<uint16_t, 8, 7, true>;
using E4M3 = Format<uint8_t, 4, 3, false>;
using E5M2 = Format<uint8_t, 5, 2, true>;

template <class F>
struct Widened {
  static constexpr size_t kElementBytes = sizeof(typename F::Bits);
  static constexpr size_t kLanes = kVectorBytes / sizeof(float);
  using Lane = float;
  using Lanes = Vector<float, kLanes>;
  using Words = Vector<uint32_t, kLanes>;
  using Stored = Vector<typename F::Bits, kLanes>;

  static TUTTI_INLINE Lanes widen(Stored stored) {
#if defined(__AVX512F__)
    if constexpr (__is_same(F, Half))
      return bitsAs<Lanes>(_mm512_cvtph_ps(bitsAs<__m256i>(stored)));
#elif defined(__F16C__)
    if constexpr (__is_same(F, Half))
      return bitsAs<Lanes>(_mm256_cvtph_ps(bitsAs<__m128i>(stored)));
#endif
    const Words bits = widenBits(stored);
    if constexpr (__is_same(F, Brain)) return bitsAs<Lanes>(bits << 16);
    return widenAny(bits);
  }

  static TUTTI_INLINE Stored narrow(Lanes v) {
#if defined(__AVX512F__)
    if constexpr (__is_same(F, Half)) {
      const Lanes nan = bitsAs<Lanes>(Words{} + 0x7fc00000u);
      return bitsAs<Stored>(_mm512_cvtps_ph(bitsAs<__m512>(v == v ? v : nan), kNearest));
    }
#elif defined(__F16C__)
    if constexpr (__is_same(F, Half)) {
      const Lanes nan = bitsAs<Lanes>(Words{} + 0x7fc00000u);
      return bitsAs<Stored>(_mm256_cvtps_ph(bitsAs<__m256>(v == v ? v : nan), kNearest));
    }
#endif
    Stored stored;
    narrowBits(v == v ? narrowNumber(bitsAs<Words>(v)) : Words{} + F::kNan, stored);
    return stored;
  }

  static TUTTI_INLINE Lanes round(Lanes v) { return widen(narrow(v)); }

 private:
  static constexpr int kNearest =
      0;  // the immediate of vcvtps2ph: nearest even, whatever MXCSR says

  static TUTTI_INLINE Lanes widenAny(Words bits) {
    const Words sign = bits >> (F::kBits - 1) << 31;
    const Words magnitude = bits & F::kMask;
    const Words moved = magnitude << F::kShift;
    // A subnormal: give it the smallest normal's hidden bit and take that away again, exactly.
    const Words hidden = Words{} + ((F::kRebias + 1) << 23);
    const Words subnormal = bitsAs<Words>(bitsAs<Lanes>(moved + hidden) - bitsAs<Lanes>(hidden));
    Words wide = magnitude < (1u << F::kMantissaBits) ? subnormal : moved + (F::kRebias << 23);
    if constexpr (F::kHasInfinity)
      wide = magnitude >= F::kTop ? moved | 0x7f800000u : wide;
    else
      wide = magnitude > F::kTop ? Words{} + 0x7fc00000u : wide;
    return bitsAs<Lanes>(sign | wide);
  }

  /// All but NaN.
  static TUTTI_INLINE Words narrowNumber(Words bits) {
    // bfloat16 has float32's exponents: the carry of rounding goes where it belongs.
    if constexpr (F::kRebias == 0)
      return (bits + ((1u << (F::kShift - 1)) - 1) + (bits >> F::kShift & 1u)) >> F::kShift;
    const Words sign = bits >> 31 << (F::kBits - 1);
    const Words rounded = roundMagnitude(bits & 0x7fffffffu);
    const Words over = F::kHasInfinity ? sign | F::kTop : Words{} + F::kNan;
    return rounded > F::kTop ? over : sign | rounded;
  }

  /// To nearest even, with the exponent range unbounded upwards (NaN gives anything).
  static TUTTI_INLINE Words roundMagnitude(Words magnitude) {
    const Words moved = magnitude - (F::kRebias << 23);
    const Words odd = moved >> F::kShift & 1u;
    const Words normal = (moved + ((1u << (F::kShift - 1)) - 1) + odd) >> F::kShift;
    // Adding a number whose last place is the type's smallest subnormal rounds to that place.
    const Words anchor = Words{} + ((F::kRebias + F::kShift + 1) << 23);
    const Words subnormal =
        bitsAs<Words>(bitsAs<Lanes>(magnitude) + bitsAs<Lanes>(anchor)) - anchor;
    return magnitude < ((F::kRebias + 1) << 23) ? subnormal : normal;
  }
};

/// Key of a number: its bits as a signed integer, all but the sign flipped when negative; so
/// key(-x) = -key(x) - 1. Top is the key above which positive patterns are NaN.
template <class Signed, Signed Top, Signed Nan, bool Least>
struct Ordered {
  static constexpr size_t kElementBytes = sizeof(Signed);
  static constexpr size_t kLanes = kVectorBytes / sizeof(Signed);
  static constexpr Signed kMost =
      static_cast<Signed>(~(uint64_t{1} << 63) >> (64 - 8 * sizeof(Signed)));
  static constexpr Signed kLeast = static_cast<Signed>(-kMost - 1);
  static constexpr Signed kBottom = static_cast<Signed>(-Top - 1);
  using Lane = Signed;
  using Lanes = Vector<Signed, kLanes>;
  using Stored = Lanes;

  static TUTTI_INLINE Lanes flip(Lanes v) { return v ^ ((v < 0) & (Lanes{} + kMost)); }
  static TUTTI_INLINE Lanes widen(Stored v) {
    const Lanes key = flip(v);
    if constexpr (Least) return key > (Lanes{} + Top) ? Lanes{} + kLeast : key;
    return key < (Lanes{} + kBottom) ? Lanes{} + kMost : key;
  }
  static TUTTI_INLINE Stored narrow(Lanes key) {
    const Lanes nan = Lanes{} + Nan;
    if constexpr (Least) return key < (Lanes{} + kBottom) ? nan : flip(key);
    return key > (Lanes{} + Top) ? nan : flip(key);
  }
  static TUTTI_INLINE Lanes round(Lanes v) { return v; }
};

struct Add {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a + b;
  }
};
struct Multiply {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a * b;
  }
};
struct Minimum {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a < b ? a : b;
  }
};
struct Maximum {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a < b ? b : a;
  }
};
struct BitAnd {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a & b;
  }
};
struct BitOr {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a | b;
  }
};
struct BitXor {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a ^ b;
  }
};
/// Comparisons give lanes of all ones or zeros, of which one bit is left.
template <class Op>
struct Logical {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return bitsAs<V>(Op::apply(a != V{}, b != V{})) & (V{} + 1);
  }
};
