// A tile of the result, 6 rows by 4 vectors, stays in registers while k goes by: for each k a
// vector of the right factor is loaded once for the tile and an element of the left one is loaded
// into all lanes. 24 multiplications with 10 loads; the processors of 2022 do one and two a cycle.
//
// Bound: one fused multiplication and addition of a vector a cycle. What could keep it from that is
// waiting for memory, so each tile asks beforehand for what will be needed:
//
//   left factor as it is     its next rows: all at once, those of a narrow tile one by one (each is
//                            measurably slower in the other way)
//   left factor transposed   rows of both factors, `kAhead` before their turn, and of the right one
//                            the next columns
//   result                   its own rows, before it is summed
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
// So many k at a time: kRows rows of the left factor stay in the first-level cache, or with a
// transposed one kColumns columns of the right factor in the second-level one.
constexpr int64_t kSum = 512, kSumTransposed = 256;
constexpr int64_t kAhead = 20;

TUTTI_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

TUTTI_INLINE void prefetch(const float* address) {
  _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T0);
}

/// c [m, n] = a [m, k] * b [k, n], and c if `add`.
struct TileProduct {
  int64_t m, n, k;
  const float* a;  ///< (row, i) is a[row * aRow + i * aSum]
  int64_t aRow, aSum;
  const float* b;  ///< (i, column) is b[i * bSum + column]
  int64_t bSum;
  float* c;  ///< (row, column) is c[row * cRow + column]
  int64_t cRow;
  bool add;
};

template <int rows, int vectors>
void tile(const TileProduct& p, int64_t row, int64_t column) {
  const int64_t absent = least(0, p.n - column - vectors * kLanes);
  const auto last = static_cast<__mmask16>(0xffff >> -absent);
  const auto mask = [last](int v) { return v == vectors - 1 ? last : __mmask16(0xffff); };
  const int64_t k = p.k, aRow = p.aRow, aSum = p.aSum, bSum = p.bSum, cRow = p.cRow;
  const float *a = p.a + row * aRow, *b = p.b + column;
  float* const c = p.c + row * cRow + column;
  const bool transposed = aSum != 1;
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
    if (transposed)
      prefetch(a + kAhead * aSum + rows - 1);
    else if (vectors <= 2)
      prefetch(a + least(rows + i % kLanes, 2 * rows - 1) * aRow);
    __m512 right[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      right[v] = _mm512_maskz_loadu_ps(mask(v), b + v * kLanes);
      if (transposed) prefetch(b + kAhead * bSum + v * kLanes);
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

using Tile = void (*)(const TileProduct&, int64_t row, int64_t column);
template <int rows>
constexpr Tile kTilesOf[kVectors] = {tile<rows, 1>, tile<rows, 2>,
                                     tile<rows <= kRows ? rows : kRows, 3>,
                                     tile<rows <= kRows ? rows : kRows, 4>};
constexpr const Tile* kTiles[kNarrowRows] = {kTilesOf<1>, kTilesOf<2>,  kTilesOf<3>,  kTilesOf<4>,
                                             kTilesOf<5>, kTilesOf<6>,  kTilesOf<7>,  kTilesOf<8>,
                                             kTilesOf<9>, kTilesOf<10>, kTilesOf<11>, kTilesOf<12>};

/// Of the rows after the tile's, the share that falls to the tile at `column`.
TUTTI_INLINE void prefetchRows(const TileProduct& p, int64_t row, int64_t step, int64_t column,
                               int64_t share) {
  const int64_t from = column / kColumns * share, to = least(p.k, from + share);
  const int64_t end = least(p.m, row + 2 * step);
  for (int64_t next = row + step; next < end; ++next)
    for (int64_t i = from; i < to; i += kLanes) prefetch(p.a + next * p.aRow + i);
}

/// Of the columns after the tile's, the share that falls to the tile at `row`: to the second-level
/// cache, there are too many for the first.
TUTTI_INLINE void prefetchColumns(const TileProduct& p, int64_t row, int64_t step, int64_t column,
                                  int64_t share) {
  if (column + kColumns >= p.n) return;
  const int64_t from = row / step * share, to = least(p.k, from + share);
  for (int64_t i = from; i < to; ++i)
    for (int64_t v = 0; v < kVectors; ++v)
      _mm_prefetch(reinterpret_cast<const char*>(p.b + i * p.bSum + column + kColumns + v * kLanes),
                   _MM_HINT_T1);
}

void compute(const TileProduct& p) {
  const bool narrow = p.n <= kNarrow;  // attention's, of which all is in the cache
  const int64_t step = narrow ? kNarrowRows : kRows;
  const auto one = [&](int64_t row, int64_t column) {
    const int64_t rows = least(step, p.m - row), columns = least(kColumns, p.n - column);
    kTiles[rows - 1][(columns - 1) / kLanes](p, row, column);
  };
  if (p.aSum != 1) {
    const int64_t share = (p.k * step + p.m - 1) / p.m;
    for (int64_t column = 0; column < p.n; column += kColumns)
      for (int64_t row = 0; row < p.m; row += step) {
        prefetchColumns(p, row, step, column, share);
        one(row, column);
      }
  } else {
    const int64_t share = (p.k * kColumns / p.n + kLanes - 1) / kLanes * kLanes;
    for (int64_t row = 0; row < p.m; row += step)
      for (int64_t column = 0; column < p.n; column += kColumns) {
        if (!narrow) prefetchRows(p, row, step, column, share);
        one(row, column);
      }
  }
}

}  // namespace

void multiplyTiles(const BlasShape& s, Matrix<const float> a, Matrix<const float> b, bool add,
                   Matrix<float> c) {
  const int64_t rowStep = s.transposeA ? 1 : a.stride, sumStep = s.transposeA ? a.stride : 1;
  const int64_t part = s.transposeA ? kSumTransposed : kSum;
  for (int64_t k = 0; k < s.k; k += part)
    compute({.m = s.m,
             .n = s.n,
             .k = least(part, s.k - k),
             .a = a.data + k * sumStep,
             .aRow = rowStep,
             .aSum = sumStep,
             .b = b.data + k * b.stride,
             .bSum = b.stride,
             .c = c.data,
             .cRow = c.stride,
             .add = add || k > 0});
}

namespace {

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

}  // namespace

void transposeTiles(Matrix<const float> from, int64_t rows, int64_t columns, Matrix<float> to) {
  for (int64_t row = 0; row < rows; row += kLanes)
    for (int64_t column = 0; column < columns; column += kLanes)
      transposeTile({from.data + row * from.stride + column, from.stride},
                    least(kLanes, rows - row), least(kLanes, columns - column),
                    {to.data + column * to.stride + row, to.stride});
}

}  // namespace tutti::parallel::host
