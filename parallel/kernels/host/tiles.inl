// Products of matrices by AVX-512, included by tiles_*.cc only: of float32, or with
// TUTTI_TILES_OF_PAIRS of bfloat16. Of these two that follow each other along k are one unit of 32
// bits, multiplied and added up by one instruction, to sums of float32. Of float32 a unit is an
// element.
//
// A tile of the result, 6 rows by 4 vectors, stays in registers while k goes by: for each unit of k
// a vector of the right factor is loaded once for the tile and an element of the left one is loaded
// into all lanes. 24 multiplications with 10 loads; the processors of 2022 do one or two of the
// first and two of the second a cycle.
//
// Bound: the fused multiplications and additions of vectors. What could keep tiles from that is
// waiting for memory, so factors are copied to where they are read in order:
//
//   right factor   panels of kColumns columns, [k][kColumns], pairs adjacent: kSum rows of one
//                  stay in the first cache while all tiles of a block of rows pass; panels of
//                  kGroupSum rows, as many as fit the third cache, are copied before
//   left factor    as it is, and each tile of the first panel asks for the next one's rows; where
//                  it is transposed and many columns of the result pay for it, a copy of a block of
//                  rows, [rows / kRows][k][kRows]
//   result         a block of rows stays in the second cache while k goes by
//
// Like elementwise.inl, this file includes nothing of the standard library.

#include <immintrin.h>

#include "parallel/kernels/host/tiles_avx512.h"

namespace tutti::parallel::host {

namespace {

#define TUTTI_INLINE inline __attribute__((always_inline))

#ifdef TUTTI_TILES_OF_PAIRS
using Element = uint16_t;
#else
using Element = float;
#endif
constexpr int64_t kUnit = sizeof(float) / sizeof(Element);  // elements
constexpr bool kPairs = kUnit == 2;

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

TUTTI_INLINE void prefetch(const void* address) { _mm_prefetch(address, _MM_HINT_T0); }

/// So many elements, at most a vector of them; what is beyond is 0.
TUTTI_INLINE __m512 loaded(const Element* from, int64_t count) {
#ifdef TUTTI_TILES_OF_PAIRS
  const auto mask = static_cast<__mmask32>(count < 32 ? (1U << count) - 1 : ~0U);
  return (__m512)_mm512_maskz_loadu_epi16(mask, from);
#else
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), from);
#endif
}

/// Units of columns: of each an element of one row, and of pairs one of the next, if that `exists`.
TUTTI_INLINE __m512 loadedColumns(const Element* row, int64_t stride, bool exists, __mmask16 mask) {
#ifdef TUTTI_TILES_OF_PAIRS
  const __m512i lower = _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, row));
  if (!exists) return (__m512)lower;
  const __m512i upper =
      _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, row + stride));
  return (__m512)_mm512_or_si512(lower, _mm512_maskz_slli_epi32(mask, upper, 16));
#else
  (void)stride, (void)exists;
  return _mm512_maskz_loadu_ps(mask, row);
#endif
}

/// A unit in all lanes.
TUTTI_INLINE __m512 splat(const Element* unit) {
  float value;
  __builtin_memcpy(&value, unit, sizeof(value));
  return _mm512_set1_ps(value);
}

TUTTI_INLINE __m512 multipliedAndAdded(__m512 left, __m512 right, __m512 sum) {
#ifdef TUTTI_TILES_OF_PAIRS
  return _mm512_dpbf16_ps(sum, (__m512bh)left, (__m512bh)right);
#else
  return _mm512_fmadd_ps(left, right, sum);
#endif
}

/// c [m, n] = a [m, k] * b [k, n], and c if `add`; a and b as they are or copied. Here k counts
/// units, and steps in a and b count elements.
struct TileProduct {
  int64_t m, n, k;
  const Element* a;  ///< (row, i) of a tile is at a[row * aRow + i * aSum]
  int64_t aRow, aSum;
  int64_t aTile;     ///< from one tile's rows to the next
  const Element* b;  ///< (i, column) of a panel is at b[i * bSum + column * kUnit]
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
  const Element *a = p.a, *b = p.b;
  float* const c = p.c;
  const bool apart = aSum > kRows * kUnit;
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
      right[v] = _mm512_maskz_loadu_ps(mask(v), b + v * kLanes * kUnit);
      prefetch(b + kAhead * bSum + v * kLanes * kUnit);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const __m512 left = splat(a + r * aRow);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sum[r][v] = multipliedAndAdded(left, right[v], sum[r][v]);
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
  if (p.aSum != kUnit) return;
  const Element* row = p.a + p.aTile;
  for (int64_t r = 0; r < rows; ++r, row += p.aRow)
    for (int64_t i = 0; i < p.k; i += kLanes) prefetch(row + i * kUnit);
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
        if (column == 0) prefetchNext(part, least(tileRows, p.m - row - tileRows));
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

/// Of 16 by 16 units, of which `rows` and `columns` exist; the last one's elements may not all.
void transposeTile(Matrix<const Element> from, int64_t rows, int64_t columns, Matrix<float> to) {
  __m512 x[kLanes];
  const int64_t units = (columns + kUnit - 1) / kUnit;
  const auto written = static_cast<__mmask16>((1U << rows) - 1);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    x[i] = i < rows ? loaded(from.data + i * from.stride, columns) : _mm512_setzero_ps();
  exchange<8>(x);
  exchange<4>(x);
  exchange<2>(x);
  exchange<1>(x);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if (i < units) _mm512_mask_storeu_ps(to.data + i * to.stride, written, x[i]);
}

/// to [units of columns, rows] = from [rows, columns], transposed.
void transpose(Matrix<const Element> from, int64_t rows, int64_t columns, Matrix<float> to) {
  constexpr int64_t kWide = kLanes * kUnit;
  for (int64_t row = 0; row < rows; row += kLanes)
    for (int64_t column = 0; column < columns; column += kWide)
      transposeTile({from.data + row * from.stride + column, from.stride},
                    least(kLanes, rows - row), least(kWide, columns - column),
                    {to.data + column / kUnit * to.stride + row, to.stride});
}

/// to [units of k, `step`] = x [k, columns]: of each row the units of columns.
void copyColumns(Matrix<const Element> x, int64_t k, int64_t columns, float* to, int64_t step) {
  for (int64_t i = 0; i < k; i += kUnit, x.data += kUnit * x.stride, to += step)
    for (int64_t j = 0; j < columns; j += kLanes) {
      const auto mask = static_cast<__mmask16>(0xffff >> (kLanes - least(kLanes, columns - j)));
      _mm512_mask_storeu_ps(to + j, mask, loadedColumns(x.data + j, x.stride, i + 1 < k, mask));
    }
}

/// How a product is cut, and what is copied.
struct TileCut {
  bool narrow, copiesRight, copiesLeft;
  int64_t sum;      ///< k that are copied together, in elements
  int64_t columns;  ///< columns that are

  explicit TileCut(const BlasShape& s)
      : narrow(s.n <= kNarrow && !kPairs),
        copiesRight(!narrow && (s.m >= kRowsToCopy || s.transposeB || kPairs)),
        copiesLeft(copiesRight && (kPairs ? s.transposeA || s.k % kUnit != 0
                                          : s.transposeA && s.n >= kColumnsToCopy)),
        sum(copiesRight ? least(kGroupSum * kUnit, s.k) : s.k),
        columns(copiesRight ? least(roundedUp(s.n, kColumns), kGroup / kGroupSum) : s.n) {}
  int64_t units() const { return (sum + kUnit - 1) / kUnit; }
  /// Of scratch memory, in float32.
  int64_t rightElements(bool transposed) const {
    return copiesRight || transposed ? roundedUp(units() * columns, kLanes) : 0;
  }
  int64_t leftElements() const { return copiesLeft ? units() * kBlockRows : 0; }
};

/// From row `from` on, and from column `column` on, of what may be transposed.
Matrix<const Element> partOf(Matrix<const Element> x, bool transposed, int64_t from,
                             int64_t column) {
  return {x.data + (transposed ? column * x.stride + from : from * x.stride + column), x.stride};
}

/// Of b [k, n], or transposed, all panels.
void copyRight(Matrix<const Element> b, bool transposed, int64_t k, int64_t n, float* to) {
  const int64_t units = (k + kUnit - 1) / kUnit;
  for (int64_t column = 0; column < n; column += kColumns, to += units * kColumns) {
    const int64_t columns = least(kColumns, n - column);
    const Matrix<const Element> part = partOf(b, transposed, 0, column);
    if (transposed)
      transpose(part, columns, k, {to, kColumns});
    else
      copyColumns(part, k, columns, to, kColumns);
  }
}

/// Of a [rows, k], or transposed.
void copyLeft(Matrix<const Element> a, bool transposed, int64_t rows, int64_t k, float* to) {
  const int64_t units = (k + kUnit - 1) / kUnit;
  for (int64_t row = 0; row < rows; row += kRows, to += units * kRows) {
    const int64_t some = least(kRows, rows - row);
    if (transposed)
      copyColumns({a.data + row, a.stride}, k, some, to, kRows);
    else
      transpose({a.data + row * a.stride, a.stride}, some, k, {to, kRows});
  }
}

const Element* asElements(const float* copied) {
  return reinterpret_cast<const Element*>(copied);  // NOLINT: units of them
}

/// A block of rows of `whole`, from `row` on; `scratch` takes the left factor where it is copied.
void computeRows(const TileProduct& whole, const TileCut& cut, Matrix<const Element> a,
                 const BlasShape& part, int64_t row, float* scratch) {
  TileProduct p = whole;
  const int64_t tileRows = cut.narrow ? kNarrowRows : kRows;
  p.m = least(kBlockRows, whole.m - row);
  p.c += row * p.cRow;
  const Matrix<const Element> block = partOf(a, part.transposeA, row, 0);
  p.a = block.data;
  p.aRow = part.transposeA ? 1 : a.stride;
  p.aSum = part.transposeA ? a.stride : kUnit;
  p.aTile = tileRows * p.aRow;
  if (cut.copiesLeft) {
    copyLeft(block, part.transposeA, p.m, part.k, scratch);
    p.a = asElements(scratch);
    p.aRow = kUnit;
    p.aSum = kRows * kUnit;
    p.aTile = kRows * kUnit * p.k;
  }
  compute(p, tileRows);
}

/// The columns of `part`, from `column` on, over its k, which are those that are copied together.
void computePart(const BlasShape& part, const TileCut& cut, Matrix<const Element> a,
                 Matrix<const Element> b, bool add, Matrix<float> c, int64_t column, float* scratch,
                 const PartDone& done) {
  TileProduct p{};
  p.m = part.m;
  p.n = part.n;
  p.k = (part.k + kUnit - 1) / kUnit;
  p.c = c.data;
  p.cRow = c.stride;
  p.add = add;
  p.b = b.data;
  p.bSum = b.stride;
  p.bPanel = kColumns;
  if (cut.copiesRight) {
    copyRight(b, part.transposeB, part.k, part.n, scratch);
    p.b = asElements(scratch);
    p.bSum = kColumns * kUnit;
    p.bPanel = kColumns * kUnit * p.k;
  } else if (part.transposeB) {
    transpose(b, part.n, part.k, {scratch, part.n});
    p.b = asElements(scratch);
    p.bSum = part.n;
  }
  float* const left = scratch + cut.rightElements(part.transposeB);
  for (int64_t row = 0; row < part.m; row += kBlockRows) {
    computeRows(p, cut, a, part, row, left);
    const ProductPart rows{row, least(kBlockRows, part.m - row), column, part.n};
    if (done.call != nullptr) done.call(done.context, rows);
  }
}

/// What both kinds of elements have for multiplyTiles() and its memory.
int64_t scratchOf(const BlasShape& s) {
  const TileCut cut(s);
  return cut.rightElements(s.transposeB) + cut.leftElements();
}

void multiply(const BlasShape& s, Matrix<const Element> a, Matrix<const Element> b, bool add,
              Matrix<float> c, float* scratch, const PartDone& done) {
  const TileCut cut(s);
  for (int64_t from = 0; from < s.k; from += cut.sum)
    for (int64_t column = 0; column < s.n; column += cut.columns) {
      const BlasShape part{s.m, least(cut.columns, s.n - column), least(cut.sum, s.k - from),
                           s.transposeA, s.transposeB};
      computePart(part, cut, partOf(a, s.transposeA, 0, from),
                  partOf(b, s.transposeB, from, column), add || from > 0,
                  {c.data + column, c.stride}, column, scratch,
                  from + cut.sum < s.k ? PartDone{} : done);
    }
}

}  // namespace
}  // namespace tutti::parallel::host
