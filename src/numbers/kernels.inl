// The vector kernels: folds of any number of sources into any number of targets, in registers.
//
// The unit of work is kUnit vectors: a unit of every source is read, folded, and written to every
// target before the next one, so that each byte moves once, in-place targets are safe, and nothing
// is buffered. What is left at the end (and before the first line, when streaming) goes through the
// same vector operations with partial loads and stores, which is why an element's result does not
// depend on where it lies. Bound: the memory's bandwidth, or from L1 the number of loads and
// stores.
//
// A variant's file defines TUTTI_VARIANT, the namespace, and includes this one.

#include "src/numbers/kernels.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tutti::numbers::TUTTI_VARIANT {
namespace {

#include "src/numbers/vectors.inl"

#include "src/numbers/elements.inl"

/// How a unit touches memory.
struct Whole {
  template <class V>
  TUTTI_INLINE V load(const char* from) const {
    return loadWhole<V>(from);
  }
  template <class V>
  TUTTI_INLINE void store(char* to, V v) const {
    storeWhole(to, v);
  }
};
struct Past : Whole {  // past the caches
  template <class V>
  TUTTI_INLINE void store(char* to, V v) const {
    storePast(to, v);
  }
};
struct FewSources {  // the first `bytes` of one vector
  size_t bytes;
  template <class V>
  TUTTI_INLINE V load(const char* from) const {
    return loadFew<V>(from, bytes);
  }
  template <class V>
  TUTTI_INLINE void store(char* to, V v) const {
    storeFew(to, v, bytes);
  }
};

inline constexpr size_t kUnit = 4;
inline constexpr size_t kTreeDepth = 17;
static_assert(kMaxSources <= size_t{1} << (kTreeDepth - 1));

template <class Codec, class Op>
class Folder {
  using Lane = typename Codec::Lane;
  using Lanes = typename Codec::Lanes;
  using Stored = typename Codec::Stored;
  static constexpr size_t kStep = Codec::kLanes * Codec::kElementBytes;
  static_assert(kStep == sizeof(Stored));

 public:
  static void run(const KernelCall& call) { Folder(call).fold(); }

 private:
  explicit TUTTI_INLINE Folder(const KernelCall& call) : call_(call) {}

  TUTTI_INLINE void fold() const {
    const size_t bytes = call_.count * Codec::kElementBytes;
    size_t at = 0;
    if (call_.streaming) {
      at = headBytes(bytes);
      small(0, at);
      at = units<Past>(at, bytes);
    } else {
      at = units<Whole>(at, bytes);
    }
    small(at, bytes);
  }

  /// Bytes before the targets' first whole line.
  TUTTI_INLINE size_t headBytes(size_t bytes) const {
    const size_t past = reinterpret_cast<uintptr_t>(target(0)) % kLineBytes;
    const size_t gap = past == 0 ? 0 : kLineBytes - past;
    return gap < bytes ? gap : bytes;
  }

  template <class Access>
  TUTTI_INLINE size_t units(size_t at, size_t bytes) const {
    // One addition, rounded once, whatever the order.
    const bool plain = call_.scalars == nullptr && call_.divideBy == 1;
    if (plain && call_.sourceCount == 2 && call_.targetCount == 1)
      return pairs<Access, 1>(at, bytes);
    if (plain && call_.sourceCount == 2 && call_.targetCount == 2)
      return pairs<Access, 2>(at, bytes);
    for (; at + kUnit * kStep <= bytes; at += kUnit * kStep) unit<kUnit>(at, Access{});
    return at;
  }

  /// The important case with all pointers in registers: two sources, one or two targets.
  template <class Access, size_t Targets>
  TUTTI_INLINE size_t pairs(size_t at, size_t bytes) const {
    const char* const left = source(0);
    const char* const right = source(1);
    char* const targets[] = {target(0), target(Targets - 1)};
    for (; at + kUnit * kStep <= bytes; at += kUnit * kStep) {
      Stored sums[kUnit];
      TUTTI_UNROLL
      for (size_t u = 0; u < kUnit; ++u) {
        const Lanes a = Codec::widen(loadWhole<Stored>(left + at + u * kStep));
        const Lanes b = Codec::widen(loadWhole<Stored>(right + at + u * kStep));
        sums[u] = Codec::narrow(Op::apply(a, b));
      }
      for (size_t t = 0; t < Targets; ++t) write(targets[t] + at, sums, Access{});
    }
    return at;
  }

  /// Any bytes, without units.
  void small(size_t at, size_t end) const {
    for (; at + kStep <= end; at += kStep) unit<1>(at, Whole{});
    if (at < end) unit<1>(at, FewSources{end - at});
  }

  template <size_t U, class Access>
  TUTTI_INLINE void unit(size_t at, Access access) const {
    Lanes value[U]{};
    if (kHasOrder && call_.canonical)
      tree(value, at, access);
    else if (kRounds && call_.rounded)
      listed<true>(value, at, access);
    else
      listed<false>(value, at, access);
    if (call_.divideBy != 1) divide(value);
    Stored stored[U];
    TUTTI_UNROLL
    for (size_t u = 0; u < U; ++u) stored[u] = Codec::narrow(value[u]);
    for (size_t t = 0; t < call_.targetCount; ++t) write(target(t) + at, stored, access);
  }

  template <size_t U, class Access>
  static TUTTI_INLINE void write(char* to, const Stored (&stored)[U], Access access) {
    TUTTI_UNROLL
    for (size_t u = 0; u < U; ++u) access.store(to + u * kStep, stored[u]);
  }

  /// Of floating-point values; integers are divided elsewhere.
  template <size_t U>
  TUTTI_INLINE void divide(Lanes (&value)[U]) const {
    if constexpr (kIsFloat<Lane>) {
      TUTTI_UNROLL
      for (size_t u = 0; u < U; ++u) value[u] /= static_cast<Lane>(call_.divideBy);
    }
  }

  template <bool Rounded, size_t U, class Access>
  TUTTI_INLINE void listed(Lanes (&value)[U], size_t at, Access access) const {
    read(value, 0, at, access);
    for (size_t s = 1; s < call_.sourceCount; ++s) {
      Lanes next[U];
      read(next, s, at, access);
      TUTTI_UNROLL
      for (size_t u = 0; u < U; ++u) {
        value[u] = Op::apply(value[u], next[u]);
        if constexpr (Rounded) value[u] = Codec::round(value[u]);
      }
    }
  }

  /// A binary counter: `waiting` holds the finished subtrees, one for each bit set in the number of
  /// pairs read; at the end they are joined from the smallest up.
  template <size_t U, class Access>
  TUTTI_INLINE void tree(Lanes (&value)[U], size_t at, Access access) const {
    Lanes waiting[kTreeDepth][U];
    size_t depth = 0;
    const size_t pairCount = call_.sourceCount / 2;
    for (size_t pair = 0; pair < pairCount; ++pair) {
      Lanes left[U];
      read(left, 2 * pair, at, access);
      read(value, 2 * pair + 1, at, access);
      join(value, left);
      for (size_t bits = pair; bits & 1; bits >>= 1) join(value, waiting[--depth]);
      TUTTI_UNROLL
      for (size_t u = 0; u < U; ++u) waiting[depth][u] = value[u];
      ++depth;
    }
    if (call_.sourceCount % 2 != 0)
      read(value, call_.sourceCount - 1, at, access);
    else
      --depth;  // the last subtree is still in `value`
    while (depth > 0) join(value, waiting[--depth]);
  }

  template <size_t U>
  static TUTTI_INLINE void join(Lanes (&right)[U], const Lanes (&left)[U]) {
    TUTTI_UNROLL
    for (size_t u = 0; u < U; ++u) right[u] = Codec::round(Op::apply(left[u], right[u]));
  }

  template <size_t U, class Access>
  TUTTI_INLINE void read(Lanes (&value)[U], size_t s, size_t at, Access access) const {
    const char* const from = source(s) + at;
    TUTTI_UNROLL
    for (size_t u = 0; u < U; ++u)
      value[u] = Codec::widen(access.template load<Stored>(from + u * kStep));
    if constexpr (kIsFloat<Lane>) {
      if (call_.scalars == nullptr) return;
      const Lane scalar = static_cast<Lane>(call_.scalars[s]);
      TUTTI_UNROLL
      for (size_t u = 0; u < U; ++u) value[u] = Codec::round(value[u] * scalar);
    }
  }

  TUTTI_INLINE const char* source(size_t s) const {
    return static_cast<const char*>(call_.sources[s]) + call_.begin * Codec::kElementBytes;
  }
  TUTTI_INLINE char* target(size_t t) const { return static_cast<char*>(call_.targets[t]); }

  /// Integers, and min and max, give the same bits in every order.
  static constexpr bool kHasOrder = kIsFloat<Lane>;
  /// Lanes are wider than the elements.
  static constexpr bool kRounds = kIsFloat<Lane> && sizeof(Lane) > Codec::kElementBytes;

  const KernelCall& call_;
};

template <class Codec, class Op>
inline constexpr FoldKernel kFold = &Folder<Codec, Op>::run;

#define TUTTI_INTEGER(Unsigned, Type)                                                           \
  {                                                                                             \
    kFold<Plain<Unsigned>, Add>, kFold<Plain<Unsigned>, Multiply>, kFold<Plain<Type>, Minimum>, \
        kFold<Plain<Type>, Maximum>, kFold<Plain<Unsigned>, BitAnd>,                            \
        kFold<Plain<Unsigned>, BitOr>, kFold<Plain<Unsigned>, BitXor>,                          \
        kFold<Plain<Unsigned>, Logical<BitAnd>>, kFold<Plain<Unsigned>, Logical<BitOr>>,        \
        kFold<Plain<Unsigned>, Logical<BitXor>>                                                 \
  }
#define TUTTI_FLOAT(Codec, Signed, Top, Nan)                                                    \
  {                                                                                             \
    kFold<Codec, Add>, kFold<Codec, Multiply>, kFold<Ordered<Signed, Top, Nan, true>, Minimum>, \
        kFold<Ordered<Signed, Top, Nan, false>, Maximum>                                        \
  }

constexpr FoldKernels kKernels{
    {
        TUTTI_INTEGER(uint8_t, int8_t),
        TUTTI_INTEGER(uint8_t, uint8_t),
        TUTTI_INTEGER(uint16_t, int16_t),
        TUTTI_INTEGER(uint16_t, uint16_t),
        TUTTI_INTEGER(uint32_t, int32_t),
        TUTTI_INTEGER(uint32_t, uint32_t),
        TUTTI_INTEGER(uint64_t, int64_t),
        TUTTI_INTEGER(uint64_t, uint64_t),
        TUTTI_FLOAT(Widened<Half>, int16_t, Half::kTop, Half::kNan),
        TUTTI_FLOAT(Widened<Brain>, int16_t, Brain::kTop, Brain::kNan),
        TUTTI_FLOAT(Plain<float>, int32_t, 0x7f800000, 0x7fc00000),
        TUTTI_FLOAT(Plain<double>, int64_t, 0x7ff0000000000000, 0x7ff8000000000000),
        TUTTI_FLOAT(Widened<E4M3>, int8_t, E4M3::kTop, E4M3::kNan),
        TUTTI_FLOAT(Widened<E5M2>, int8_t, E5M2::kTop, E5M2::kNan),
    },
    &streamCopy,
    &fence,
};

}  // namespace
}  // namespace tutti::numbers::TUTTI_VARIANT
