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
#if defined(__AVX512F__)
  // Masked moves touch nothing behind `bytes` and need no detour through the stack.
  const uint64_t mask = (uint64_t{1} << bytes) - 1;
  if constexpr (sizeof(V) == 64)
    return bitsAs<V>(_mm512_maskz_loadu_epi8(mask, from));
  else if constexpr (sizeof(V) == 32)
    return bitsAs<V>(_mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), from));
  else
    return bitsAs<V>(_mm_maskz_loadu_epi8(static_cast<__mmask16>(mask), from));
#else
  V v{};
  moveFew<sizeof(V)>(reinterpret_cast<char*>(&v), from, bytes);
  return v;
#endif
}
template <class V>
TUTTI_INLINE void storeFew(char* to, V v, size_t bytes) {
#if defined(__AVX512F__)
  const uint64_t mask = (uint64_t{1} << bytes) - 1;
  if constexpr (sizeof(V) == 64)
    _mm512_mask_storeu_epi8(to, mask, bitsAs<__m512i>(v));
  else if constexpr (sizeof(V) == 32)
    _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), bitsAs<__m256i>(v));
  else
    _mm_mask_storeu_epi8(to, static_cast<__mmask16>(mask), bitsAs<__m128i>(v));
#else
  moveFew<sizeof(V)>(to, reinterpret_cast<const char*>(&v), bytes);
#endif
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

/// Lanes of 8 or 16 bits as 32-bit lanes and back; what does not fit is cut off. By intrinsics,
/// because GCC 12 takes such conversions of its own vectors apart, lane by lane.
#if defined(__AVX512F__)
TUTTI_INLINE Vector<uint32_t, 16> widenBits(Vector<uint8_t, 16> v) {
  return bitsAs<Vector<uint32_t, 16>>(_mm512_cvtepu8_epi32(bitsAs<__m128i>(v)));
}
TUTTI_INLINE Vector<uint32_t, 16> widenBits(Vector<uint16_t, 16> v) {
  return bitsAs<Vector<uint32_t, 16>>(_mm512_cvtepu16_epi32(bitsAs<__m256i>(v)));
}
TUTTI_INLINE void narrowBits(Vector<uint32_t, 16> v, Vector<uint8_t, 16>& to) {
  to = bitsAs<Vector<uint8_t, 16>>(_mm512_cvtepi32_epi8(bitsAs<__m512i>(v)));
}
TUTTI_INLINE void narrowBits(Vector<uint32_t, 16> v, Vector<uint16_t, 16>& to) {
  to = bitsAs<Vector<uint16_t, 16>>(_mm512_cvtepi32_epi16(bitsAs<__m512i>(v)));
}
#elif defined(__AVX2__)
TUTTI_INLINE Vector<uint32_t, 8> widenBits(Vector<uint8_t, 8> v) {
  return bitsAs<Vector<uint32_t, 8>>(_mm256_cvtepu8_epi32(_mm_set_epi64x(0, bitsAs<int64_t>(v))));
}
TUTTI_INLINE Vector<uint32_t, 8> widenBits(Vector<uint16_t, 8> v) {
  return bitsAs<Vector<uint32_t, 8>>(_mm256_cvtepu16_epi32(bitsAs<__m128i>(v)));
}
/// The low 16 bits of each lane, in order.
TUTTI_INLINE __m128i lowHalves(Vector<uint32_t, 8> v) {
  const __m256i low = bitsAs<__m256i>(v & 0xffffu);
  const __m256i packed = _mm256_packus_epi32(low, low);  // 0-3 0-3 | 4-7 4-7
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
TUTTI_INLINE void narrowBits(Vector<uint32_t, 8> v, Vector<uint16_t, 8>& to) {
  to = bitsAs<Vector<uint16_t, 8>>(lowHalves(v));
}
TUTTI_INLINE void narrowBits(Vector<uint32_t, 8> v, Vector<uint8_t, 8>& to) {
  const __m128i halves = lowHalves(v & 0xffu);
  to = bitsAs<Vector<uint8_t, 8>>(
      static_cast<int64_t>(_mm_cvtsi128_si64(_mm_packus_epi16(halves, halves))));
}
#elif defined(__SSE2__)
TUTTI_INLINE Vector<uint32_t, 4> widenBits(Vector<uint16_t, 4> v) {
  const __m128i low = _mm_set_epi64x(0, bitsAs<int64_t>(v));
  return bitsAs<Vector<uint32_t, 4>>(_mm_unpacklo_epi16(low, _mm_setzero_si128()));
}
TUTTI_INLINE Vector<uint32_t, 4> widenBits(Vector<uint8_t, 4> v) {
  const __m128i low = _mm_cvtsi32_si128(bitsAs<int32_t>(v));
  const __m128i halves = _mm_unpacklo_epi8(low, _mm_setzero_si128());
  return bitsAs<Vector<uint32_t, 4>>(_mm_unpacklo_epi16(halves, _mm_setzero_si128()));
}
/// The low 16 bits of each lane, in order, twice: SSE2 packs signed numbers only.
TUTTI_INLINE __m128i lowHalves(Vector<uint32_t, 4> v) {
  const __m128i extended = _mm_srai_epi32(bitsAs<__m128i>(v << 16), 16);
  return _mm_packs_epi32(extended, extended);
}
TUTTI_INLINE void narrowBits(Vector<uint32_t, 4> v, Vector<uint16_t, 4>& to) {
  to = bitsAs<Vector<uint16_t, 4>>(static_cast<int64_t>(_mm_cvtsi128_si64(lowHalves(v))));
}
TUTTI_INLINE void narrowBits(Vector<uint32_t, 4> v, Vector<uint8_t, 4>& to) {
  const __m128i halves = lowHalves(v & 0xffu);
  to = bitsAs<Vector<uint8_t, 4>>(_mm_cvtsi128_si32(_mm_packus_epi16(halves, halves)));
}
#else
template <class V>
TUTTI_INLINE Vector<uint32_t, 4> widenBits(V v) {
  return __builtin_convertvector(v, Vector<uint32_t, 4>);
}
template <class V>
TUTTI_INLINE void narrowBits(Vector<uint32_t, 4> v, V& to) {
  to = __builtin_convertvector(v, V);
}
#endif

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
