// Vectors of the compiler's own kind, as wide as the variant's registers, and what they need beyond
// operators: loads and stores at any address, of whole vectors and of a vector's first bytes.
// Included by kernels.inl inside the variant's namespace.

#if defined(__AVX512F__)
inline constexpr size_t kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr size_t kVectorBytes = 32;
#else
inline constexpr size_t kVectorBytes = 16;
#endif

template <class Lane, size_t Lanes>
struct VectorOf {
  typedef Lane Type __attribute__((vector_size(Lanes * sizeof(Lane))));
};
template <class Lane, size_t Lanes>
using Vector = typename VectorOf<Lane, Lanes>::Type;

// At -O2 the compilers leave short loops over an array of vectors rolled, and the array in memory.
#if defined(__clang__)
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_UNROLL _Pragma("GCC unroll 4")
#endif
#define TUTTI_INLINE inline __attribute__((always_inline))

template <class To, class From>
TUTTI_INLINE To bitsAs(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

template <class V>
TUTTI_INLINE V loadWhole(const char* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class V>
TUTTI_INLINE void storeWhole(char* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}

/// Copies bytes < Limit, a power of two, without a loop or a call: this is on the path of the
/// smallest messages.
template <size_t Limit>
TUTTI_INLINE void moveFew(char* to, const char* from, size_t bytes) {
  if constexpr (Limit > 1) {
    constexpr size_t part = Limit / 2;
    const size_t moved = bytes & part;
    if (moved != 0) __builtin_memcpy(to, from, part);
    moveFew<part>(to + moved, from + moved, bytes);
  }
}

/// The first `bytes` < sizeof(V) bytes from memory, zeros behind them.
template <class V>
TUTTI_INLINE V loadFew(const char* from, size_t bytes) {
  V v{};
  moveFew<sizeof(V)>(reinterpret_cast<char*>(&v), from, bytes);
  return v;
}
template <class V>
TUTTI_INLINE void storeFew(char* to, V v, size_t bytes) {
  moveFew<sizeof(V)>(to, reinterpret_cast<const char*>(&v), bytes);
}

/// Stores past the caches where the variant can; `to` is aligned to the vector.
template <class V>
TUTTI_INLINE void storePast(char* to, V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bitsAs<__m512i>(v));
    return;
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bitsAs<__m256i>(v));
    return;
  }
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(V) == 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), bitsAs<__m128i>(v));
    return;
  }
#endif
  storeWhole(to, v);
}

inline void fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

inline void streamCopy(void* target, const void* source, size_t bytes) {
  using V = Vector<uint8_t, kVectorBytes>;
  char* to = static_cast<char*>(target);
  const char* from = static_cast<const char*>(source);
  const size_t past = reinterpret_cast<uintptr_t>(to) % kLineBytes;
  const size_t gap = past == 0 ? 0 : kLineBytes - past;
  const size_t head = gap < bytes ? gap : bytes;
  moveFew<kLineBytes>(to, from, head);
  size_t at = head;
  for (; at + kLineBytes <= bytes; at += kLineBytes)
    for (size_t part = 0; part < kLineBytes; part += kVectorBytes)
      storePast(to + at + part, loadWhole<V>(from + at + part));
  moveFew<kLineBytes>(to + at, from + at, bytes - at);
}
