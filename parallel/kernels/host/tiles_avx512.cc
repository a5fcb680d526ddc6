// A tile of the result, 6 rows by 4 vectors, stays in registers while k goes by: for each k a
// vector of the right factor is loaded once for the tile and an element of the left one is loaded
// into all lanes. 24 multiplications with 10 loads; the processors of 2022 do one or two of the
// first and two of the second a cycle.
//
// Bound: the fused multiplications and additions of vectors. What could keep tiles from that is
// waiting for memory, so factors are copied to where they are read in order:
//
//   right factor   panels of kColumns columns, [k][kColumns]: kSum rows of one stay in the first
//                  cache while all tiles of a block of rows pass; panels of kGroupSum rows, as many
//                  as fit the third cache, are copied before
//   left factor    as it is, and each tile asks for the next one's rows; transposed and with many
//                  columns of the result, which then pay for the copy, a block of rows at a time,
//                  [rows / kRows][k][kRows]
//   result         a block of rows stays in the second cache while k goes by
//
// Like elementwise.inl, this file includes nothing of the standard library.

#include "parallel/kernels/host/tiles_avx512.h"

#include <immintrin.h>

namespace tutti::parallel::host {

namespace {

#define TUTTI_INLINE inline __attribute__((always_inline))

constexpr int64_t kLanes = 16;
constexpr int64_t kRows = 6, kVectors = 4, kColumns = kVectors * kLanes;
// Of a result with at most two vectors in a row.
constexpr int64_t kNarrowRows = 12, kNarrow = 2 * kLanes;
constexpr int64_t kSum = 128, kGroupSum = 1024;
// So many k are asked for before their turn; of a transposed left factor more, as its rows lie
// apart.
constexpr int64_t kAhead = 8, kAheadApart = 20;
constexpr int64_t kGroup = 1 << 20;  // elements of the right factor that are copied together
constexpr int64_t kBlockRows = 192;  // a multiple of kRows and of kNarrowRows
/// From so many columns of the result on, a transposed left factor is copied.
constexpr int64_t kColumnsToCopy = 512;
/// With fewer rows of the result the right factor is read where it is.
constexpr int64_t kRowsToCopy = 8 * kRows;

TUTTI_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

TUTTI_INLINE int64_t roundedUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

TUTTI_INLINE void prefetch(const float* address) {
  _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T0);
}

/// c [m, n] = a [m, k] * b [k, n], and c if `add`; a and b as they are or copied.
struct TileProduct {
  int64_t m, n, k;
  const float* a;  ///< (row, i) of a tile is a[row * aRow + i * aSum]
  int64_t aRow, aSum;
  int64_t aTile;   ///< from one tile's rows to the next
  const float* b;  ///< (i, column) of a panel is b[i * bSum + column]
  int64_t bSum, bPanel;
  float* c;  ///< (row, column) is c[row * cRow + column]
  int64_t cRow;
  bool add;
};

/// Of which all rows, columns and k are one tile's.
template <int rows, int vectors>
void tile(const TileProduct& p) {
  const auto last = static_cast<__mmask16>(0xffff >> (vectors * kLanes - p.n));
  const auto mask = [last](int v) { return v == vectors - 1 ? last : __mmask16(0xffff); };
  const int64_t k = p.k, aRow = p.aRow, aSum = p.aSum, bSum = p.bSum, cRow = p.cRow;
  const float *a = p.a, *b = p.b;
  float* const c = p.c;
  const bool apart = aSum > kRows;
  __m512 sum[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      __builtin_prefetch(c + r * cRow + v * kLanes, 1);
      sum[r][v] =
          p.add ? _mm512_maskz_loadu_ps(mask(v), c + r * cRow + v * kLanes) : _mm512_setzero_ps();
    }
  for (int64_t i = 0; i < k; ++i, a += aSum, b += bSum) {
    if (apart) prefetch(a + kAheadApart * aSum + rows - 1);
    __m512 right[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      right[v] = _mm512_maskz_loadu_ps(mask(v), b + v * kLanes);
      prefetch(b + kAhead * bSum + v * kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const __m512 left = _mm512_set1_ps(a[r * aRow]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sum[r][v] = _mm512_fmadd_ps(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v)
      _mm512_mask_storeu_ps(c + r * cRow + v * kLanes, mask(v), sum[r][v]);
}

using Tile = void (*)(const TileProduct&);
template <int rows>
constexpr Tile kTilesOf[kVectors] = {tile<rows, 1>, tile<rows, 2>,
                                     tile<rows <= kRows ? rows : kRows, 3>,
                                     tile<rows <= kRows ? rows : kRows, 4>};
constexpr const Tile* kTiles[kNarrowRows] = {kTilesOf<1>, kTilesOf<2>,  kTilesOf<3>,  kTilesOf<4>,
                                             kTilesOf<5>, kTilesOf<6>,  kTilesOf<7>,  kTilesOf<8>,
                                             kTilesOf<9>, kTilesOf<10>, kTilesOf<11>, kTilesOf<12>};

/// Of the tile after this one, where its rows are adjacent elements.
TUTTI_INLINE void prefetchNext(const TileProduct& p, int64_t rows) {
  if (p.aSum != 1) return;
  const float* row = p.a + p.aTile;
  for (int64_t r = 0; r < rows; ++r, row += p.aRow)
    for (int64_t i = 0; i < p.k; i += kLanes) prefetch(row + i);
}

/// All tiles, in the order in which a part of a panel stays in the cache. Sums go on in c, so an
/// element has the bits of one sum over all k.
void compute(const TileProduct& p, int64_t tileRows) {
  for (int64_t column = 0; column < p.n; column += kColumns)
    for (int64_t i = 0; i < p.k; i += kSum) {
      TileProduct part = p;
      part.n = least(kColumns, p.n - column);
      part.k = least(kSum, p.k - i);
      part.a += i * p.aSum;
      part.b += column / kColumns * p.bPanel + i * p.bSum;
      part.c += column;
      part.add = p.add || i > 0;
      for (int64_t row = 0; row < p.m; row += tileRows) {
        prefetchNext(part, least(tileRows, p.m - row - tileRows));
        kTiles[least(tileRows, p.m - row) - 1][(part.n - 1) / kLanes](part);
        part.a += p.aTile;
        part.c += tileRows * p.cRow;
      }
    }
}

typedef int32_t Lanes __attribute__((vector_size(64)));

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

/// Of 16 by 16 elements, of which `rows` and `columns` exist.
void transposeTile(Matrix<const float> from, int64_t rows, int64_t columns, Matrix<float> to) {
  __m512 x[kLanes];
  const auto read = static_cast<__mmask16>((1U << columns) - 1);
  const auto written = static_cast<__mmask16>((1U << rows) - 1);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    x[i] =
        i < rows ? _mm512_maskz_loadu_ps(read, from.data + i * from.stride) : _mm512_setzero_ps();
  exchange<8>(x);
  exchange<4>(x);
  exchange<2>(x);
  exchange<1>(x);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if (i < columns) _mm512_mask_storeu_ps(to.data + i * to.stride, written, x[i]);
}

/// to [columns, rows] = from [rows, columns], transposed.
void transpose(Matrix<const float> from, int64_t rows, int64_t columns, Matrix<float> to) {
  for (int64_t row = 0; row < rows; row += kLanes)
    for (int64_t column = 0; column < columns; column += kLanes)
      transposeTile({from.data + row * from.stride + column, from.stride},
                    least(kLanes, rows - row), least(kLanes, columns - column),
                    {to.data + column * to.stride + row, to.stride});
}

/// Of b [k, n], n at most kColumns.
void copyPanel(Matrix<const float> b, int64_t k, int64_t n, float* to) {
  for (int64_t i = 0; i < k; ++i, b.data += b.stride, to += kColumns)
    for (int64_t j = 0; j < n; j += kLanes) {
      const auto mask = static_cast<__mmask16>(0xffff >> (kLanes - least(kLanes, n - j)));
      _mm512_mask_storeu_ps(to + j, mask, _mm512_maskz_loadu_ps(mask, b.data + j));
    }
}

/// Of a [k, rows].
void copyTransposedRows(Matrix<const float> a, int64_t k, int64_t rows, float* to) {
  for (int64_t row = 0; row < rows; row += kRows) {
    const auto mask = static_cast<__mmask16>((1U << least(kRows, rows - row)) - 1);
    const float* from = a.data + row;
    for (int64_t i = 0; i < k; ++i, from += a.stride, to += kRows)
      _mm512_mask_storeu_ps(to, mask, _mm512_maskz_loadu_ps(mask, from));
  }
}

/// How a product is cut, and what is copied.
struct TileCut {
  bool narrow, copiesRight, copiesLeft;
  int64_t sum;      ///< k that are copied together
  int64_t columns;  ///< columns that are

  explicit TileCut(const BlasShape& s)
      : narrow(s.n <= kNarrow),
        copiesRight(!narrow && (s.m >= kRowsToCopy || s.transposeB)),
        copiesLeft(copiesRight && s.transposeA && s.n >= kColumnsToCopy),
        sum(copiesRight ? least(kGroupSum, s.k) : s.k),
        columns(copiesRight ? least(roundedUp(s.n, kColumns), kGroup / kGroupSum) : s.n) {}
  int64_t rightElements(const BlasShape& s) const {
    return copiesRight || s.transposeB ? roundedUp(sum * columns, kLanes) : 0;
  }
  int64_t leftElements() const { return copiesLeft ? sum * kBlockRows : 0; }
};

/// The right factor's rows [from, from + k) and columns [column, column + n), where they are.
Matrix<const float> partOf(Matrix<const float> b, bool transposed, int64_t from, int64_t column) {
  return {b.data + (transposed ? column * b.stride + from : from * b.stride + column), b.stride};
}

void copyRight(const BlasShape& s, Matrix<const float> b, float* to) {
  for (int64_t column = 0; column < s.n; column += kColumns, to += s.k * kColumns) {
    const int64_t n = least(kColumns, s.n - column);
    const Matrix<const float> part = partOf(b, s.transposeB, 0, column);
    if (s.transposeB)
      transpose(part, n, s.k, {to, kColumns});
    else
      copyPanel(part, s.k, n, to);
  }
}

/// A block of rows of `whole`, from `row` on; `scratch` takes the left factor where it is copied.
void computeRows(const TileProduct& whole, const TileCut& cut, int64_t row, float* scratch) {
  TileProduct p = whole;
  const int64_t tileRows = cut.narrow ? kNarrowRows : kRows;
  p.m = least(kBlockRows, whole.m - row);
  p.a += row * p.aRow;
  p.c += row * p.cRow;
  p.aTile = tileRows * p.aRow;
  if (cut.copiesLeft) {
    copyTransposedRows({p.a, p.aSum}, p.k, p.m, scratch);
    p.a = scratch;
    p.aSum = kRows;
    p.aTile = kRows * p.k;
  }
  compute(p, tileRows);
}

}  // namespace

int64_t tileScratch(const BlasShape& s) {
  const TileCut cut(s);
  return cut.rightElements(s) + cut.leftElements();
}

void multiplyTiles(const BlasShape& s, Matrix<const float> a, Matrix<const float> b, bool add,
                   Matrix<float> c, float* scratch) {
  const TileCut cut(s);
  float* const left = scratch + cut.rightElements(s);
  TileProduct p{};
  p.m = s.m;
  p.aRow = s.transposeA ? 1 : a.stride;
  p.aSum = s.transposeA ? a.stride : 1;
  p.cRow = c.stride;
  for (int64_t from = 0; from < s.k; from += cut.sum)
    for (int64_t column = 0; column < s.n; column += cut.columns) {
      p.n = least(cut.columns, s.n - column);
      p.k = least(cut.sum, s.k - from);
      p.a = a.data + from * p.aSum;
      p.c = c.data + column;
      p.add = add || from > 0;
      const Matrix<const float> part = partOf(b, s.transposeB, from, column);
      p.b = part.data;
      p.bSum = b.stride;
      p.bPanel = kColumns;
      if (cut.copiesRight) {
        copyRight({p.m, p.n, p.k, false, s.transposeB}, part, scratch);
        p.b = scratch;
        p.bSum = kColumns;
        p.bPanel = kColumns * p.k;
      } else if (s.transposeB) {
        transpose(part, p.n, p.k, {scratch, p.n});
        p.b = scratch;
        p.bSum = p.n;
      }
      for (int64_t row = 0; row < s.m; row += kBlockRows) computeRows(p, cut, row, left);
    }
}

}  // namespace tutti::parallel::host
