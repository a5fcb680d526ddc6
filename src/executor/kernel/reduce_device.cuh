#pragma once

// From a type and a reduction, as numbers, to what is compiled for them: how two packs become one.
// A kernel has the types of one size.

#include "src/executor/kernel/numbers_device.cuh"
#include "src/executor/kernel/pack_device.cuh"
#include "src/executor/kernel/types.h"

namespace tutti::executor::kernel {

/// Sum, Avg and PreMulSum all add.
TUTTI_DEVICE bool adds(uint8_t op) { return op == kSum || op == kAvg || op == kPreMulSum; }
TUTTI_DEVICE bool isReducedType(uint8_t type) {
  return type == kFloat16 || type == kBFloat16 || type == kFloat8E4M3 || type == kFloat8E5M2;
}
/// Added up, or multiplied, as float32.
TUTTI_DEVICE bool isWidened(uint8_t type, uint8_t op) {
  return isReducedType(type) && (adds(op) || op == kProd);
}

template <int kSize>
struct WordOf {
  using Type = uint8_t;
  using Signed = int8_t;
};
template <>
struct WordOf<2> {
  using Type = uint16_t;
  using Signed = int16_t;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
  using Signed = int32_t;
};
template <>
struct WordOf<8> {
  using Type = uint64_t;
  using Signed = int64_t;
};

/// A pack's elements as lanes.
template <class Codec>
struct Lanes {
  static constexpr int kCount = 16 / int(sizeof(typename Codec::Stored));
  typename Codec::Lane at[kCount];

  static TUTTI_DEVICE Lanes from(uint4 pack) {
    const auto stored = unpack<typename Codec::Stored>(pack);
    Lanes lanes;
#pragma unroll
    for (int i = 0; i < kCount; ++i) lanes.at[i] = Codec::widen(stored.at[i]);
    return lanes;
  }
  TUTTI_DEVICE uint4 packed() const {
    PackedElements<typename Codec::Stored> stored;
#pragma unroll
    for (int i = 0; i < kCount; ++i) stored.at[i] = Codec::narrow(at[i]);
    return pack(stored);
  }
  template <class Op>
  TUTTI_DEVICE void join(const Lanes& next, bool isRounded) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      at[i] = Op::apply(at[i], next.at[i]);
      if (Codec::kRounds && isRounded) at[i] = Codec::round(at[i]);
    }
  }
};

/// Calls `visit` with the codec in which elements of `type` are added and multiplied.
template <int kSize, class Visit>
TUTTI_DEVICE void withCodec(uint8_t type, Visit visit) {
  if constexpr (kSize == 1) {
    if (type == kFloat8E4M3) return visit.template operator()<DeviceWidened<E4M3>>();
    if (type == kFloat8E5M2) return visit.template operator()<DeviceWidened<E5M2>>();
    if (type == kInt8) return visit.template operator()<DevicePlain<int8_t>>();
  } else if constexpr (kSize == 2) {
    if (type == kFloat16) return visit.template operator()<DeviceWidened<Half>>();
    if (type == kBFloat16) return visit.template operator()<DeviceWidened<Brain>>();
    if (type == kInt16) return visit.template operator()<DevicePlain<int16_t>>();
  } else if constexpr (kSize == 4) {
    if (type == kFloat32) return visit.template operator()<DevicePlain<float>>();
    if (type == kInt32) return visit.template operator()<DevicePlain<int32_t>>();
  } else {
    if (type == kFloat64) return visit.template operator()<DevicePlain<double>>();
    if (type == kInt64) return visit.template operator()<DevicePlain<int64_t>>();
  }
  visit.template operator()<DevicePlain<typename WordOf<kSize>::Type>>();
}

/// Some elements, in a word of registers.
template <class Codec, class Word>
struct Few {
  using Stored = typename Codec::Stored;
  static constexpr int kCount = int(sizeof(Word) / sizeof(Stored));
  Stored at[kCount];
  static TUTTI_DEVICE Few from(Word word) {
    Few few;
    memcpy(&few, &word, sizeof word);
    return few;
  }
  TUTTI_DEVICE Word word() const {
    Word bits;
    memcpy(&bits, this, sizeof bits);
    return bits;
  }
};

/// change(word of a, word of b) for the words of two packs. Words of small elements go through one
/// body in turn: unrolled, they take the compiler minutes and more registers than there are.
template <int kSize, class Change>
TUTTI_DEVICE uint4 eachWord(uint4 a, uint4 b, Change change) {
  if constexpr (kSize == 8) {
    auto left = unpack<uint64_t>(a), right = unpack<uint64_t>(b);
    for (int i = 0; i < 2; ++i) left.at[i] = change(left.at[i], right.at[i]);
    return pack(left);
  } else if constexpr (kSize == 4) {
    return make_uint4(change(a.x, b.x), change(a.y, b.y), change(a.z, b.z), change(a.w, b.w));
  } else {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      const uint32_t changed = change(a.x, b.x);
      a = make_uint4(a.y, a.z, a.w, changed);
      b = make_uint4(b.y, b.z, b.w, b.x);
    }
    return a;
  }
}

template <class Codec, class Op>
TUTTI_DEVICE uint4 joinedBy(uint4 a, uint4 b) {
  return eachWord<int(sizeof(typename Codec::Stored))>(a, b, [](auto left, auto right) {
    using Piece = Few<Codec, decltype(left)>;
    auto x = Piece::from(left);
    const auto y = Piece::from(right);
#pragma unroll
    for (int i = 0; i < Piece::kCount; ++i)
      x.at[i] = Codec::narrow(Op::apply(Codec::widen(x.at[i]), Codec::widen(y.at[i])));
    return x.word();
  });
}

/// narrow(change(widen(element))) of each.
template <class Codec, class Change>
TUTTI_DEVICE uint4 eachElement(uint4 a, Change change) {
  return eachWord<int(sizeof(typename Codec::Stored))>(a, a, [&](auto word, auto) {
    using Piece = Few<Codec, decltype(word)>;
    auto x = Piece::from(word);
#pragma unroll
    for (int i = 0; i < Piece::kCount; ++i) x.at[i] = Codec::narrow(change(Codec::widen(x.at[i])));
    return x.word();
  });
}

template <class Signed, Signed kTop, Signed kNan>
TUTTI_DEVICE uint4 extremeBy(uint4 a, uint4 b, uint8_t op) {
  if (op == kMin) return joinedBy<DeviceOrdered<Signed, kTop, kNan, true>, DeviceMinimum>(a, b);
  return joinedBy<DeviceOrdered<Signed, kTop, kNan, false>, DeviceMaximum>(a, b);
}

template <class Integer>
TUTTI_DEVICE uint4 extremeOf(uint4 a, uint4 b, uint8_t op) {
  if (op == kMin) return joinedBy<DevicePlain<Integer>, DeviceMinimum>(a, b);
  return joinedBy<DevicePlain<Integer>, DeviceMaximum>(a, b);
}

/// Min or Max.
template <int kSize>
TUTTI_DEVICE uint4 extreme(uint4 a, uint4 b, uint8_t type, uint8_t op) {
  if constexpr (kSize == 1) {
    if (type == kFloat8E4M3) return extremeBy<int8_t, E4M3::kTop, E4M3::kNan>(a, b, op);
    if (type == kFloat8E5M2) return extremeBy<int8_t, E5M2::kTop, E5M2::kNan>(a, b, op);
  } else if constexpr (kSize == 2) {
    if (type == kFloat16) return extremeBy<int16_t, Half::kTop, Half::kNan>(a, b, op);
    if (type == kBFloat16) return extremeBy<int16_t, Brain::kTop, Brain::kNan>(a, b, op);
  } else if constexpr (kSize == 4) {
    if (type == kFloat32) return extremeBy<int32_t, 0x7f800000, 0x7fc00000>(a, b, op);
  } else {
    if (type == kFloat64)
      return extremeBy<int64_t, 0x7ff0000000000000, 0x7ff8000000000000>(a, b, op);
  }
  const bool isSigned = type % 2 == 0;
  if (isSigned) return extremeOf<typename WordOf<kSize>::Signed>(a, b, op);
  return extremeOf<typename WordOf<kSize>::Type>(a, b, op);
}

template <int kSize>
TUTTI_DEVICE uint4 joinedBits(uint4 a, uint4 b, uint8_t op) {
  using Codec = DevicePlain<typename WordOf<kSize>::Type>;
  using Bits = DevicePlain<uint32_t>;
  switch (op) {
    case kBitAnd: return joinedBy<Bits, DeviceBitAnd>(a, b);
    case kBitOr: return joinedBy<Bits, DeviceBitOr>(a, b);
    case kBitXor: return joinedBy<Bits, DeviceBitXor>(a, b);
    case kLogicalAnd: return joinedBy<Codec, DeviceLogical<DeviceBitAnd>>(a, b);
    case kLogicalOr: return joinedBy<Codec, DeviceLogical<DeviceBitOr>>(a, b);
    default: return joinedBy<Codec, DeviceLogical<DeviceBitXor>>(a, b);
  }
}

/// Two packs folded, rounded to the type.
template <int kSize>
TUTTI_DEVICE uint4 joined(uint4 a, uint4 b, uint8_t type, uint8_t op) {
  if (op == kMin || op == kMax) return extreme<kSize>(a, b, type, op);
  if (!adds(op) && op != kProd) return joinedBits<kSize>(a, b, op);
  uint4 result{};
  withCodec<kSize>(type, [&]<class Codec>() {
    result = op == kProd ? joinedBy<Codec, DeviceMultiply>(a, b) : joinedBy<Codec, DeviceAdd>(a, b);
  });
  return result;
}

/// PreMulSum's scalar where it is an element in memory: of an integer of 64 bits the nearest
/// double.
template <int kSize>
TUTTI_DEVICE double scalarAt(const void* at, uint8_t type) {
  double scalar = 0;
  withCodec<kSize>(type, [&]<class Codec>() {
    typename Codec::Stored element;
    for (int i = 0; i < kSize; ++i)  // at any address
      reinterpret_cast<unsigned char*>(&element)[i] = static_cast<const unsigned char*>(at)[i];
    scalar = double(Codec::widen(element));
  });
  return scalar;
}

/// Times PreMulSum's scalar, rounded to the type.
template <int kSize>
TUTTI_DEVICE uint4 scaledPack(uint4 a, uint8_t type, double scalar) {
  uint4 result{};
  withCodec<kSize>(type, [&]<class Codec>() {
    result = eachElement<Codec>(a, [&](auto x) { return scaled<Codec>(x, scalar); });
  });
  return result;
}

/// What is stored: divided, and with the type's one NaN, also where nothing was folded.
template <int kSize>
TUTTI_DEVICE uint4 finishedPack(uint4 a, uint8_t type, uint8_t op, int divideBy) {
  if (!adds(op)) return a;
  uint4 result{};
  withCodec<kSize>(type, [&]<class Codec>() {
    result = eachElement<Codec>(
        a, [&](auto x) { return divideBy == 1 ? x : divided<Codec>(x, divideBy); });
  });
  return result;
}

/// A pack of a reduced type as float32, of which only a type's own number is used.
template <int kSize>
struct Wide {
  float at[kSize <= 2 ? 16 / kSize : 1];
};

template <int kSize, class Visit>
TUTTI_DEVICE void withReduced(uint8_t type, Visit visit) {
  if constexpr (kSize == 1) {
    if (type == kFloat8E4M3) return visit.template operator()<DeviceWidened<E4M3>>();
    visit.template operator()<DeviceWidened<E5M2>>();
  } else if constexpr (kSize == 2) {
    if (type == kFloat16) return visit.template operator()<DeviceWidened<Half>>();
    visit.template operator()<DeviceWidened<Brain>>();
  }
}

/// Moves the numbers of one word of a pack to the end, those of the next to the front.
template <int kSize>
TUTTI_DEVICE void rotate(Wide<kSize>& wide) {
  constexpr int kAll = 16 / kSize, kWord = 4 / kSize;
  const Wide<kSize> before = wide;
#pragma unroll
  for (int i = 0; i < kAll; ++i) wide.at[i] = before.at[(i + kWord) % kAll];
}

template <int kSize>
TUTTI_DEVICE void addWide(Wide<kSize>& wide, uint4 next, bool isFirst, uint8_t type, uint8_t op) {
  withReduced<kSize>(type, [&]<class Codec>() {
    eachWord<kSize>(next, next, [&](auto word, auto) {
      using Piece = Few<Codec, decltype(word)>;
      const auto x = Piece::from(word);
#pragma unroll
      for (int i = 0; i < Piece::kCount; ++i) {
        const float a = wide.at[i], b = Codec::widen(x.at[i]);
        wide.at[i] = isFirst       ? b
                     : op == kProd ? DeviceMultiply::apply(a, b)
                                   : DeviceAdd::apply(a, b);
      }
      rotate(wide);
      return word;
    });
  });
}

template <int kSize>
TUTTI_DEVICE uint4 finishedWide(Wide<kSize> wide, uint8_t type, int divideBy) {
  uint4 result{};
  withReduced<kSize>(type, [&]<class Codec>() {
    result = eachWord<kSize>(result, result, [&](auto word, auto) {
      using Piece = Few<Codec, decltype(word)>;
      Piece x{};
#pragma unroll
      for (int i = 0; i < Piece::kCount; ++i)
        x.at[i] = Codec::narrow(divideBy == 1 ? wide.at[i] : divided<Codec>(wide.at[i], divideBy));
      rotate(wide);
      return x.word();
    });
  });
  return result;
}

}  // namespace tutti::executor::kernel
