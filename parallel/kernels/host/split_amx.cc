// Products of float32 as sums of products of bfloat16, by tiles of AMX.
//
// A tile register has 16 rows of 64 bytes: of the left factor 16 rows by 32 k, of the right one 32
// k by 16 columns, of the result 16 by 16. Two elements of each k that share 32 bits are k and
// k + 16 of these 32, in both factors: so they are put together without moving lanes.
//
//   factors   split and copied first, in blocks of 32 rows or columns by 32 k: [piece][half][tile]
//   result    32 by 32 in four registers while at most kSum k go by. For each 32 k there are 6
//             products of pieces with 4 instructions each, that of the largest pieces last
//   caches    32 rows of the left factor by kSum k are copied to the first cache, and the right
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
constexpr int64_t kBlock = 2 * kLanes;  // rows, columns and k that are copied together
constexpr int kPieces = 3;
constexpr int64_t kTile = kLanes * kLanes;  // units of 32 bits
constexpr int64_t kPiece = 2 * kTile, kPacked = kPieces * kPiece;
constexpr int64_t kTileBytes = 64;  // from one row of a tile to the next
constexpr int64_t kSum = 128, kGroupSum = 512, kGroupSumApart = 128;
constexpr int64_t kRowsApart = 256;  // of a left factor whose rows lie apart
constexpr int64_t kGroup = 1 << 17;  // elements of the right factor that are copied together

TUTTI_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
TUTTI_INLINE int64_t blocks(int64_t count) { return (count + kBlock - 1) / kBlock; }

/// So many lanes, none where there are less than 1.
TUTTI_INLINE __mmask16 lanes(int64_t count) {
  if (count >= kLanes) return 0xffff;
  return static_cast<__mmask16>(count <= 0 ? 0 : (1U << count) - 1);
}

/// At most 16 by 16 elements; what is beyond them is 0.
struct Square {
  const float* data;
  int64_t stride, rows, columns;

  TUTTI_INLINE bool isWhole() const { return rows >= kLanes && columns >= kLanes; }
  template <bool whole>
  TUTTI_INLINE __m512 row(int64_t r) const {
    if (whole) return _mm512_loadu_ps(data + r * stride);
    const __mmask16 mask = r < rows ? lanes(columns) : __mmask16(0);
    return _mm512_maskz_loadu_ps(mask, data + r * stride);
  }
};

typedef int32_t Lanes __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));

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
template <bool whole>
TUTTI_INLINE void loadTransposed(const Square& from, __m512 (&x)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) x[i] = from.row<whole>(i);
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
TUTTI_INLINE void storePieces(uint32_t* to, __m512 low, __m512 high) {
#pragma GCC unroll 3
  for (int piece = 0; piece < kPieces; ++piece, to += kPiece) {
    const bool rest = piece == kPieces - 1;
    const __m512 lowPiece = rest ? low : rounded(low), highPiece = rest ? high : rounded(high);
    storePair(to, lowPiece, highPiece);
    low -= lowPiece;
    high -= highPiece;
  }
}

template <bool whole>
void packRows(const Square& low, const Square& high, uint32_t* to) {
  for (int i = 0; i < kLanes; ++i, to += kLanes)
    storePieces(to, low.row<whole>(i), high.row<whole>(i));
}

template <bool whole>
void packColumns(const Square& low, const Square& high, uint32_t* to) {
  __m512 x[kLanes], y[kLanes];
  loadTransposed<whole>(low, x);
  loadTransposed<whole>(high, y);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i, to += kLanes) storePieces(to, x[i], y[i]);
}

/// A tile of each piece: `low` has the first 16 of its k, `high` the others.
template <bool transposed>
TUTTI_INLINE void packTile(const Square& low, const Square& high, uint32_t* to) {
  const bool whole = low.isWhole() && high.isWhole();
  if (transposed)
    whole ? packColumns<true>(low, high, to) : packColumns<false>(low, high, to);
  else
    whole ? packRows<true>(low, high, to) : packRows<false>(low, high, to);
}

/// A factor [k, lines], or if `kAdjacent` [lines, k]; lines are rows of the left factor, columns of
/// the right one.
struct Factor {
  const float* data;
  int64_t stride, lines, k;
  bool kAdjacent;

  /// 16 lines from `line` by 16 k from `from`, as they lie.
  TUTTI_INLINE Square square(int64_t line, int64_t from) const {
    if (kAdjacent) return {data + line * stride + from, stride, lines - line, k - from};
    return {data + from * stride + line, stride, k - from, lines - line};
  }
  TUTTI_INLINE Factor part(int64_t line, int64_t someLines, int64_t from, int64_t some) const {
    return {square(line, from).data, stride, someLines, some, kAdjacent};
  }
};

/// A block of lines by one of k, as packTile() has it, twice.
template <bool transposed>
TUTTI_INLINE void packBlock(const Factor& x, int64_t line, int64_t k, uint32_t* to) {
  for (int64_t half = 0; half < 2; ++half, line += kLanes, to += kTile)
    packTile<transposed>(x.square(line, k), x.square(line, k + kLanes), to);
}

/// The lines of the cache that a block is in, or most of them.
TUTTI_INLINE void prefetchBlock(const Factor& x, int64_t line, int64_t k) {
  const Square rows = x.square(line, k);
  for (int64_t r = 0; r < kBlock; ++r) {
    _mm_prefetch(rows.data + r * rows.stride, _MM_HINT_T0);
    _mm_prefetch(rows.data + r * rows.stride + kLanes, _MM_HINT_T0);
  }
}

/// To [blocks of lines][blocks of k], in the order in which x lies.
template <bool transposed>
void pack(const Factor& x, uint32_t* to) {
  const int64_t ofLines = blocks(x.lines), ofK = blocks(x.k);
  const auto line = [&](int64_t i) { return (x.kAdjacent ? i / ofK : i % ofLines) * kBlock; };
  const auto k = [&](int64_t i) { return (x.kAdjacent ? i % ofK : i / ofLines) * kBlock; };
  for (int64_t i = 0; i < ofLines * ofK; ++i) {
    prefetchBlock(x, line(i + 1), k(i + 1));
    packBlock<transposed>(x, line(i), k(i),
                          to + (line(i) / kBlock * ofK + k(i) / kBlock) * kPacked);
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
TUTTI_INLINE void prefetch(const float* next, int64_t stride, int64_t i) {
  constexpr int64_t kSome = kBlock / (kSum / kBlock);
#pragma GCC unroll 8
  for (int64_t r = i * kSome; r < (i + 1) * kSome; ++r) {
    __builtin_prefetch(next + r * stride, 1);
    __builtin_prefetch(next + r * stride + kLanes, 1);
  }
}

/// c [32, 32] = a * b, and c if `add`, over so many blocks of k.
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
  for (int64_t i = 0; i < count; ++i, a += kPacked, b += kPacked) {
    TUTTI_LOAD_LEFT(0);
    TUTTI_LOAD_RIGHT(2);
    prefetch(c + kBlock, stride, i);
    TUTTI_MULTIPLY();
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
void multiplyEdge(const uint32_t* a, const uint32_t* b, int64_t count, Matrix<float> c,
                  int64_t rows, int64_t columns, bool add) {
  alignas(64) float whole[kBlock * kBlock];
  if (add) copyBlock(c.data, c.stride, rows, columns, whole, kBlock);
  multiplyBlock(a, b, count, whole, kBlock, add);
  copyBlock(whole, kBlock, rows, columns, c.data, c.stride);
}

/// c [rows, columns]; of the right factor `blocksOfK` are packed, of which these are `some`.
void multiplyPacked(const uint32_t* a, const uint32_t* b, int64_t blocksOfK, int64_t some,
                    Matrix<float> c, int64_t rows, int64_t columns, bool add) {
  for (int64_t column = 0; column < columns; column += kBlock, b += blocksOfK * kPacked)
    for (int64_t row = 0; row < rows; row += kBlock) {
      const uint32_t* const left = a + row / kBlock * some * kPacked;
      float* const at = c.data + row * c.stride + column;
      if (row + kBlock <= rows && column + kBlock <= columns)
        multiplyBlock(left, b, some, at, c.stride, add);
      else
        multiplyEdge(left, b, some, {at, c.stride}, least(kBlock, rows - row),
                     least(kBlock, columns - column), add);
    }
}

/// Rows of the left factor that are copied together: what is read is adjacent.
TUTTI_INLINE int64_t rowsTogether(const Factor& a) {
  return least(a.lines, a.kAdjacent ? kBlock : kRowsApart);
}

/// All rows of the left factor by what is copied together of the right one.
struct GroupOfColumns {
  Factor a, b;
  Matrix<float> c;
  int64_t column;  ///< of the whole product, at which c begins
  bool add;
  PartDone done;
  uint32_t *left, *right;  ///< scratch memory
};

void multiplyGroup(const GroupOfColumns& g) {
  const Factor &a = g.a, &b = g.b;
  b.kAdjacent ? pack<true>(b, g.right) : pack<false>(b, g.right);
  const int64_t together = rowsTogether(a);
  for (int64_t row = 0; row < a.lines; row += together) {
    const int64_t rows = least(together, a.lines - row);
    const Matrix<float> c{g.c.data + row * g.c.stride, g.c.stride};
    for (int64_t k = 0; k < a.k; k += kSum) {
      const Factor some = a.part(row, rows, k, least(kSum, a.k - k));
      some.kAdjacent ? pack<false>(some, g.left) : pack<true>(some, g.left);
      multiplyPacked(g.left, g.right + k / kBlock * kPacked, blocks(a.k), blocks(some.k), c, rows,
                     b.lines, g.add || k > 0);
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

constexpr int64_t kLeftUnits = kRowsApart / kBlock * (kSum / kBlock) * kPacked;

/// What is copied together of the right factor.
int64_t groupSum(const BlasShape& s) {
  return least(s.k, s.transposeA ? kGroupSumApart : kGroupSum);
}
int64_t groupColumns(const BlasShape& s) {
  return least(s.n, kGroup / (blocks(groupSum(s)) * kBlock) / kBlock * kBlock);
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

int64_t splitScratch(const BlasShape& s) {
  return kLeftUnits + blocks(groupColumns(s)) * blocks(groupSum(s)) * kPacked;
}

void multiplySplit(const BlasShape& s, Matrix<const float> a, Matrix<const float> b, bool add,
                   Matrix<float> c, float* scratch, const PartDone& done) {
  const Factor left{a.data, a.stride, s.m, s.k, !s.transposeA};
  const Factor right{b.data, b.stride, s.n, s.k, s.transposeB};
  auto* const packedLeft = reinterpret_cast<uint32_t*>(scratch);  // NOLINT: units of 32 bits
  uint32_t* const packedRight = packedLeft + kLeftUnits;
  const int64_t sum = groupSum(s), columns = groupColumns(s);
  const TileConfiguration configuration;
  fence();
  _tile_loadconfig(&configuration);
  for (int64_t k = 0; k < s.k; k += sum)
    for (int64_t column = 0; column < s.n; column += columns) {
      const int64_t some = least(sum, s.k - k);
      multiplyGroup({left.part(0, s.m, k, some),
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

}  // namespace tutti::parallel::host
