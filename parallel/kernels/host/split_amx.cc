// Products of float32 as sums of products of bfloat16, and of bfloat16 itself, by tiles of AMX.
//
// A tile register has 16 rows of 64 bytes: of the left factor 16 rows by 32 k, of the right one 32
// k by 16 columns, of the result 16 by 16. Two elements of each k that share 32 bits are k and
// k + 16 of these 32, in both factors: so they are put together without moving lanes.
//
//   factors   split and copied first, in blocks of 32 rows or columns by 32 k: [piece][half][tile].
//             bfloat16 is one piece, float32 three
//   result    32 by 32 in four registers while at most `sum` k go by. For each 32 k there are 6
//             products of pieces with 4 instructions each, that of the largest pieces last; of
//             bfloat16 there is one
//   caches    32 rows of the left factor by `sum` k are copied to the first cache, and the right
//             factor's blocks pass, which stay in the second one while all rows go by. Of a left
//             factor that is transposed kRowsApart are copied, to the second cache
//
// Bound: the instructions that multiply, 16 cycles each; copies are a tenth of the time where k, m
// and n are some hundreds. Like tiles.inl, this file includes nothing of the standard library.

#include "parallel/kernels/host/split_amx.h"

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tutti::parallel::host {

namespace {

#define TUTTI_INLINE inline __attribute__((always_inline))

constexpr int64_t kLanes = 16;
constexpr int64_t kBlock = 2 * kLanes;      // rows, columns and k that are copied together
constexpr int64_t kTile = kLanes * kLanes;  // units of 32 bits
constexpr int64_t kPiece = 2 * kTile;
constexpr int64_t kTileBytes = 64;   // from one row of a tile to the next
constexpr int64_t kRowsApart = 256;  // of a left factor whose rows lie apart

/// How products of such elements are cut. What is copied takes the caches that three pieces do; so
/// of one piece it is more k.
template <class Element>
struct AmxCut {
  static constexpr int pieces = sizeof(Element) == sizeof(float) ? 3 : 1;
  static constexpr int64_t packed = pieces * kPiece;  // units of a block
  static constexpr int64_t sum = pieces == 1 ? 256 : 128;
  static constexpr int64_t groupSum = 4 * sum, groupSumApart = sum;
  static constexpr int64_t group = (3 << 17) / pieces;  // elements of the right factor together
  static constexpr int64_t leftUnits = kRowsApart / kBlock * (sum / kBlock) * packed;
};

TUTTI_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
TUTTI_INLINE int64_t blocks(int64_t count) { return (count + kBlock - 1) / kBlock; }

typedef int32_t Lanes __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));

/// So many lanes, none where there are less than 1.
TUTTI_INLINE __mmask16 lanes(int64_t count) {
  if (count >= kLanes) return 0xffff;
  return static_cast<__mmask16>(count <= 0 ? 0 : (1U << count) - 1);
}

TUTTI_INLINE __m512 loaded(const float* from) { return _mm512_loadu_ps(from); }
TUTTI_INLINE __m512 loaded(const float* from, __mmask16 mask) {
  return _mm512_maskz_loadu_ps(mask, from);
}
TUTTI_INLINE __m512 widened(__m256i brain) {
  return (__m512)((Words)_mm512_maskz_cvtepu16_epi32(0xffff, brain) << 16);
}
TUTTI_INLINE __m512 loaded(const uint16_t* from) {
  return widened(_mm256_loadu_si256((const __m256i*)from));
}
TUTTI_INLINE __m512 loaded(const uint16_t* from, __mmask16 mask) {
  return widened(_mm256_maskz_loadu_epi16(mask, from));
}

/// At most 16 by 16 elements; what is beyond them is 0.
template <class Element>
struct Square {
  const Element* data;
  int64_t stride, rows, columns;

  TUTTI_INLINE bool isWhole() const { return rows >= kLanes && columns >= kLanes; }
  template <bool whole>
  TUTTI_INLINE __m512 row(int64_t r) const {
    if (whole) return loaded(data + r * stride);
    return loaded(data + r * stride, r < rows ? lanes(columns) : __mmask16(0));
  }
};

/// Exchanges the blocks of `size` by `size` elements beside the diagonal, in all squares of twice
/// that size.
template <int size>
TUTTI_INLINE void exchange(__m512 (&x)[kLanes]) {
  constexpr Lanes lane{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const Lanes left = (lane & size) != 0 ? lane + (16 - size) : lane;
  const Lanes right = (lane & size) != 0 ? lane + 16 : lane + size;
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & size) != 0) continue;
    const __m512 upper = x[i], lower = x[i + size];
    x[i] = _mm512_permutex2var_ps(upper, (__m512i)left, lower);
    x[i + size] = _mm512_permutex2var_ps(upper, (__m512i)right, lower);
  }
}

/// Row i of the result is column i.
template <bool whole, class Element>
TUTTI_INLINE void loadTransposed(const Square<Element>& from, __m512 (&x)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) x[i] = from.template row<whole>(i);
  exchange<8>(x);
  exchange<4>(x);
  exchange<2>(x);
  exchange<1>(x);
}

/// To the nearest of what has 8 significant bits, in the upper half of the lanes; of two as near
/// the larger.
TUTTI_INLINE __m512 rounded(__m512 x) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  return (__m512)_mm512_and_epi32(_mm512_add_epi32((__m512i)x, _mm512_set1_epi32(0x8000)), upper);
}

/// The upper halves of the lanes of both, `low`'s below.
TUTTI_INLINE void storePair(uint32_t* to, __m512 low, __m512 high) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const auto below = (__m512i)((Words)low >> 16);
  constexpr int kOrAnd = 0xf8;  // a | (b & c)
  _mm512_store_si512(to, _mm512_ternarylogic_epi32(below, (__m512i)high, upper, kOrAnd));
}

/// One row of a tile of each piece. What rounding leaves is exact.
template <int pieces>
TUTTI_INLINE void storePieces(uint32_t* to, __m512 low, __m512 high) {
#pragma GCC unroll 3
  for (int piece = 0; piece < pieces; ++piece, to += kPiece) {
    const bool rest = piece == pieces - 1;
    const __m512 lowPiece = rest ? low : rounded(low), highPiece = rest ? high : rounded(high);
    storePair(to, lowPiece, highPiece);
    low -= lowPiece;
    high -= highPiece;
  }
}

template <bool whole, class Element>
void packRows(const Square<Element>& low, const Square<Element>& high, uint32_t* to) {
  for (int i = 0; i < kLanes; ++i, to += kLanes)
    storePieces<AmxCut<Element>::pieces>(to, low.template row<whole>(i),
                                         high.template row<whole>(i));
}

template <bool whole, class Element>
void packColumns(const Square<Element>& low, const Square<Element>& high, uint32_t* to) {
  __m512 x[kLanes], y[kLanes];
  loadTransposed<whole>(low, x);
  loadTransposed<whole>(high, y);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i, to += kLanes)
    storePieces<AmxCut<Element>::pieces>(to, x[i], y[i]);
}

/// A tile of each piece: `low` has the first 16 of its k, `high` the others.
template <bool transposed, class Element>
TUTTI_INLINE void packTile(const Square<Element>& low, const Square<Element>& high, uint32_t* to) {
  const bool whole = low.isWhole() && high.isWhole();
  if (transposed)
    whole ? packColumns<true>(low, high, to) : packColumns<false>(low, high, to);
  else
    whole ? packRows<true>(low, high, to) : packRows<false>(low, high, to);
}

/// A factor [k, lines], or if `kAdjacent` [lines, k]; lines are rows of the left factor, columns of
/// the right one.
template <class Element>
struct Factor {
  const Element* data;
  int64_t stride, lines, k;
  bool kAdjacent;

  /// 16 lines from `line` by 16 k from `from`, as they lie.
  TUTTI_INLINE Square<Element> square(int64_t line, int64_t from) const {
    if (kAdjacent) return {data + line * stride + from, stride, lines - line, k - from};
    return {data + from * stride + line, stride, k - from, lines - line};
  }
  TUTTI_INLINE Factor part(int64_t line, int64_t someLines, int64_t from, int64_t some) const {
    return {square(line, from).data, stride, someLines, some, kAdjacent};
  }
};

/// A block of lines by one of k, as packTile() has it, twice.
template <bool transposed, class Element>
TUTTI_INLINE void packBlock(const Factor<Element>& x, int64_t line, int64_t k, uint32_t* to) {
  for (int64_t half = 0; half < 2; ++half, line += kLanes, to += kTile)
    packTile<transposed>(x.square(line, k), x.square(line, k + kLanes), to);
}

/// The lines of the cache that a block is in, or most of them.
template <class Element>
TUTTI_INLINE void prefetchBlock(const Factor<Element>& x, int64_t line, int64_t k) {
  const Square<Element> rows = x.square(line, k);
  for (int64_t r = 0; r < kBlock; ++r) {
    _mm_prefetch(rows.data + r * rows.stride, _MM_HINT_T0);
    if (sizeof(Element) == sizeof(float))
      _mm_prefetch(rows.data + r * rows.stride + kLanes, _MM_HINT_T0);
  }
}

/// To [blocks of lines][blocks of k], in the order in which x lies.
template <bool transposed, class Element>
void pack(const Factor<Element>& x, uint32_t* to) {
  const int64_t ofLines = blocks(x.lines), ofK = blocks(x.k);
  const auto line = [&](int64_t i) { return (x.kAdjacent ? i / ofK : i % ofLines) * kBlock; };
  const auto k = [&](int64_t i) { return (x.kAdjacent ? i % ofK : i / ofLines) * kBlock; };
  for (int64_t i = 0; i < ofLines * ofK; ++i) {
    prefetchBlock(x, line(i + 1), k(i + 1));
    packBlock<transposed>(x, line(i), k(i),
                          to + (line(i) / kBlock * ofK + k(i) / kBlock) * AmxCut<Element>::packed);
  }
}

/// The compiler does not know what tile instructions read and write.
TUTTI_INLINE void fence() { asm volatile("" ::: "memory"); }

#define TUTTI_LOAD_LEFT(piece)                    \
  _tile_loadd(4, a + (piece)*kPiece, kTileBytes); \
  _tile_loadd(5, a + (piece)*kPiece + kTile, kTileBytes)
#define TUTTI_LOAD_RIGHT(piece)                   \
  _tile_loadd(6, b + (piece)*kPiece, kTileBytes); \
  _tile_loadd(7, b + (piece)*kPiece + kTile, kTileBytes)
#define TUTTI_MULTIPLY()   \
  _tile_dpbf16ps(0, 4, 6); \
  _tile_dpbf16ps(1, 4, 7); \
  _tile_dpbf16ps(2, 5, 6); \
  _tile_dpbf16ps(3, 5, 7)

/// Some rows of the next block of c, which is asked for while one is multiplied.
template <int64_t sum>
TUTTI_INLINE void prefetch(const float* next, int64_t stride, int64_t i) {
  constexpr int64_t kSome = kBlock / (sum / kBlock);
#pragma GCC unroll 8
  for (int64_t r = i * kSome; r < (i + 1) * kSome; ++r) {
    __builtin_prefetch(next + r * stride, 1);
    __builtin_prefetch(next + r * stride + kLanes, 1);
  }
}

/// Of three pieces by three, behind the first by the third: the others, but for the three least.
TUTTI_INLINE void multiplyOthers(const uint32_t* a, const uint32_t* b) {
  TUTTI_LOAD_RIGHT(1);
  TUTTI_MULTIPLY();
  TUTTI_LOAD_LEFT(1);
  TUTTI_MULTIPLY();
  TUTTI_LOAD_RIGHT(0);
  TUTTI_MULTIPLY();
  TUTTI_LOAD_LEFT(2);
  TUTTI_MULTIPLY();
  TUTTI_LOAD_LEFT(0);
  TUTTI_MULTIPLY();
}

/// c [32, 32] = a * b, and c if `add`, over so many blocks of k.
template <class Element>
void multiplyBlock(const uint32_t* a, const uint32_t* b, int64_t count, float* c, int64_t stride,
                   bool add) {
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(float));
  float* const lower = c + kLanes * stride;
  fence();
  if (add) {
    _tile_loadd(0, c, bytes);
    _tile_loadd(1, c + kLanes, bytes);
    _tile_loadd(2, lower, bytes);
    _tile_loadd(3, lower + kLanes, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  using Cut = AmxCut<Element>;
  for (int64_t i = 0; i < count; ++i, a += Cut::packed, b += Cut::packed) {
    TUTTI_LOAD_LEFT(0);
    TUTTI_LOAD_RIGHT(Cut::pieces - 1);
    prefetch<Cut::sum>(c + kBlock, stride, i);
    TUTTI_MULTIPLY();
    if constexpr (Cut::pieces > 1) multiplyOthers(a, b);
  }
  _tile_stored(0, c, bytes);
  _tile_stored(1, c + kLanes, bytes);
  _tile_stored(2, lower, bytes);
  _tile_stored(3, lower + kLanes, bytes);
  fence();
}

void copyBlock(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
               int64_t toStride) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; j += kLanes) {
      const __mmask16 mask = lanes(columns - j);
      const __m512 some = _mm512_maskz_loadu_ps(mask, from + r * stride + j);
      _mm512_mask_storeu_ps(to + r * toStride + j, mask, some);
    }
}

/// A block of which not all is there.
template <class Element>
void multiplyEdge(const uint32_t* a, const uint32_t* b, int64_t count, Matrix<float> c,
                  int64_t rows, int64_t columns, bool add) {
  alignas(64) float whole[kBlock * kBlock];
  if (add) copyBlock(c.data, c.stride, rows, columns, whole, kBlock);
  multiplyBlock<Element>(a, b, count, whole, kBlock, add);
  copyBlock(whole, kBlock, rows, columns, c.data, c.stride);
}

/// c [rows, columns]; of the right factor `blocksOfK` are packed, of which these are `some`.
template <class Element>
void multiplyPacked(const uint32_t* a, const uint32_t* b, int64_t blocksOfK, int64_t some,
                    Matrix<float> c, int64_t rows, int64_t columns, bool add) {
  constexpr int64_t kPacked = AmxCut<Element>::packed;
  for (int64_t column = 0; column < columns; column += kBlock, b += blocksOfK * kPacked)
    for (int64_t row = 0; row < rows; row += kBlock) {
      const uint32_t* const left = a + row / kBlock * some * kPacked;
      float* const at = c.data + row * c.stride + column;
      if (row + kBlock <= rows && column + kBlock <= columns)
        multiplyBlock<Element>(left, b, some, at, c.stride, add);
      else
        multiplyEdge<Element>(left, b, some, {at, c.stride}, least(kBlock, rows - row),
                              least(kBlock, columns - column), add);
    }
}

/// Rows of the left factor that are copied together: what is read is adjacent.
template <class Element>
TUTTI_INLINE int64_t rowsTogether(const Factor<Element>& a) {
  return least(a.lines, a.kAdjacent ? kBlock : kRowsApart);
}

/// All rows of the left factor by what is copied together of the right one.
template <class Element>
struct GroupOfColumns {
  Factor<Element> a, b;
  Matrix<float> c;
  int64_t column;  ///< of the whole product, at which c begins
  bool add;
  PartDone done;
  uint32_t *left, *right;  ///< scratch memory
};

template <class Element>
void multiplyGroup(const GroupOfColumns<Element>& g) {
  using Cut = AmxCut<Element>;
  const Factor<Element>&a = g.a, &b = g.b;
  b.kAdjacent ? pack<true>(b, g.right) : pack<false>(b, g.right);
  const int64_t together = rowsTogether(a);
  for (int64_t row = 0; row < a.lines; row += together) {
    const int64_t rows = least(together, a.lines - row);
    const Matrix<float> c{g.c.data + row * g.c.stride, g.c.stride};
    for (int64_t k = 0; k < a.k; k += Cut::sum) {
      const Factor<Element> some = a.part(row, rows, k, least(Cut::sum, a.k - k));
      some.kAdjacent ? pack<false>(some, g.left) : pack<true>(some, g.left);
      multiplyPacked<Element>(g.left, g.right + k / kBlock * Cut::packed, blocks(a.k),
                              blocks(some.k), c, rows, b.lines, g.add || k > 0);
    }
    if (g.done.call != nullptr) g.done.call(g.done.context, {row, rows, g.column, b.lines});
  }
}

/// What the registers hold: all have 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, firstRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// What is copied together of the right factor.
template <class Cut>
int64_t groupSum(const BlasShape& s) {
  return least(s.k, s.transposeA ? Cut::groupSumApart : Cut::groupSum);
}
template <class Cut>
int64_t groupColumns(const BlasShape& s) {
  return least(s.n, Cut::group / (blocks(groupSum<Cut>(s)) * kBlock) / kBlock * kBlock);
}
template <class Cut>
int64_t scratchOf(const BlasShape& s) {
  return Cut::leftUnits + blocks(groupColumns<Cut>(s)) * blocks(groupSum<Cut>(s)) * Cut::packed;
}

template <class Element>
void multiply(const BlasShape& s, Matrix<const Element> a, Matrix<const Element> b, bool add,
              Matrix<float> c, float* scratch, const PartDone& done) {
  using Cut = AmxCut<Element>;
  const Factor<Element> left{a.data, a.stride, s.m, s.k, !s.transposeA};
  const Factor<Element> right{b.data, b.stride, s.n, s.k, s.transposeB};
  auto* const packedLeft = reinterpret_cast<uint32_t*>(scratch);  // NOLINT: units of 32 bits
  uint32_t* const packedRight = packedLeft + Cut::leftUnits;
  const int64_t sum = groupSum<Cut>(s), columns = groupColumns<Cut>(s);
  const TileConfiguration configuration;
  fence();
  _tile_loadconfig(&configuration);
  for (int64_t k = 0; k < s.k; k += sum)
    for (int64_t column = 0; column < s.n; column += columns) {
      const int64_t some = least(sum, s.k - k);
      multiplyGroup<Element>({left.part(0, s.m, k, some),
                              right.part(column, least(columns, s.n - column), k, some),
                              {c.data + column, c.stride},
                              column,
                              add || k > 0,
                              k + sum < s.k ? PartDone{} : done,
                              packedLeft,
                              packedRight});
    }
  _tile_release();
}

}  // namespace

bool multipliesSplit() {
#ifdef __linux__
  static const bool able = [] {
    constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("amx-tile") &&
           __builtin_cpu_supports("amx-bf16") &&
           ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return able;
#else
  return false;
#endif
}

int64_t splitScratch(const BlasShape& s) { return scratchOf<AmxCut<float>>(s); }

void multiplySplit(const BlasShape& s, Matrix<const float> a, Matrix<const float> b, bool add,
                   Matrix<float> c, float* scratch, const PartDone& done) {
  multiply(s, a, b, add, c, scratch, done);
}

int64_t brainAmxScratch(const BlasShape& s) { return scratchOf<AmxCut<uint16_t>>(s); }

void multiplyBrainAmx(const BlasShape& s, Matrix<const uint16_t> a, Matrix<const uint16_t> b,
                      bool add, Matrix<float> c, float* scratch) {
  multiply(s, a, b, add, c, scratch, {});
}

}  // namespace tutti::parallel::host
