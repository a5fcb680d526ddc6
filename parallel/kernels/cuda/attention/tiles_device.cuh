#pragma once

// Tiles of heads' rows in shared memory, and products of them by mma.sync. A tile's rows lie
// kHeadPitch<width> elements apart, 16 bytes more than they are long: an odd number of 16 bytes, so
// that the eight rows that ldmatrix reads at a time are in different banks.
//
// A warp has 16 rows of a product for each of its row tiles, and of these the columns of kColumns
// tiles of 8. With lane l its element e is of row l / 4 + 8 (e / 2), column 2 (l % 4) + e % 2
// (ptx/matrix.cuh): each lane knows two rows of a row tile, and four lanes share them.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/attention/arguments.h"
#include "parallel/kernels/cuda/attention/weights_device.cuh"

namespace tutti::parallel::cuda {

using ::tutti::cuda::dynamicShared;

inline constexpr int kHeadWarps = kHeadThreads / 32;

template <int kWidth>
inline constexpr int kHeadPitch = kWidth + 8;

// Products of factors in registers and in shared memory: by mma.sync, and by wgmma, whose right
// factor is a tile with its rows as columns, or as it is.
struct BrainNumbers {
  static TUTTI_DEVICE uint32_t pack(float low, float high) { return ptx::packBf16(low, high); }
  static TUTTI_DEVICE void addProduct(float (&sums)[4], const uint32_t (&a)[4],
                                      const uint32_t (&b)[2]) {
    ptx::mmaBf16(sums, a, b);
  }
  template <int kSums>
  static TUTTI_DEVICE void multiplyWide(float (&sums)[kSums], uint64_t a, uint64_t b, bool adds) {
    ptx::wgmmaBf16(sums, a, b, adds);
  }
  template <int kSums>
  static TUTTI_DEVICE void addWide(float (&sums)[kSums], const uint32_t (&a)[4], uint64_t b) {
    ptx::wgmmaBf16<ptx::Major::Mn>(sums, a, b, true);
  }
  /// Both factors lie along the rows that are summed over.
  template <int kSums>
  static TUTTI_DEVICE void multiplyAlongRows(float (&sums)[kSums], uint64_t a, uint64_t b,
                                             bool adds) {
    ptx::wgmmaBf16<ptx::Major::Mn, ptx::Major::Mn>(sums, a, b, adds);
  }
};
struct HalfNumbers {
  static TUTTI_DEVICE uint32_t pack(float low, float high) { return ptx::packF16(low, high); }
  static TUTTI_DEVICE void addProduct(float (&sums)[4], const uint32_t (&a)[4],
                                      const uint32_t (&b)[2]) {
    ptx::mmaF16(sums, a, b);
  }
  template <int kSums>
  static TUTTI_DEVICE void multiplyWide(float (&sums)[kSums], uint64_t a, uint64_t b, bool adds) {
    ptx::wgmmaF16(sums, a, b, adds);
  }
  template <int kSums>
  static TUTTI_DEVICE void addWide(float (&sums)[kSums], const uint32_t (&a)[4], uint64_t b) {
    ptx::wgmmaF16<ptx::Major::Mn>(sums, a, b, true);
  }
  /// Both factors lie along the rows that are summed over.
  template <int kSums>
  static TUTTI_DEVICE void multiplyAlongRows(float (&sums)[kSums], uint64_t a, uint64_t b,
                                             bool adds) {
    ptx::wgmmaF16<ptx::Major::Mn, ptx::Major::Mn>(sums, a, b, adds);
  }
};

/// Begins to copy kRows rows of a head from `first` on; those from `rows` on are zeros.
template <int kWidth, int kRows>
TUTTI_DEVICE void copyHeadRows(uint16_t* to, const HeadRows& from, int32_t batch, int32_t head,
                               int32_t first, int32_t rows) {
  constexpr int kPieces = kWidth / 8;
  const uint16_t* const data = static_cast<const uint16_t*>(from.elements.data) +
                               batch * from.batchStride + int64_t(head) * kWidth;
#pragma unroll
  for (int i = int(threadIdx.x); i < kRows * kPieces; i += kHeadThreads) {
    const int row = i / kPieces, column = i % kPieces * 8;
    const bool isThere = first + row < rows;
    const int64_t place = isThere ? (first + row) * from.rowStride + column : 0;
    ptx::cpAsync<16>(ptx::sharedAddress(to + row * kHeadPitch<kWidth> + column), data + place,
                     isThere ? 16 : 0);
  }
}

/// Of a left factor 16 rows from `row` on, and of these 16 columns from `column` on.
template <int kWidth>
TUTTI_DEVICE void loadLeft(uint32_t (&a)[4], const uint16_t* tile, int row, int column) {
  const int lane = laneOf();
  ptx::ldmatrix(a, ptx::sharedAddress(tile + (row + lane % 16) * kHeadPitch<kWidth> + column +
                                      lane / 16 * 8));
}

/// Two columns' tiles of the right factor that a tile is when it is transposed: 16 of its rows from
/// `row` on are the columns, and 16 of its columns are summed over.
template <int kWidth>
TUTTI_DEVICE void loadTransposed(uint32_t (&b)[2][2], const uint16_t* tile, int row, int column) {
  const int lane = laneOf();
  uint32_t both[4];
  ptx::ldmatrix(both,
                ptx::sharedAddress(tile + (row + lane % 8 + lane / 16 * 8) * kHeadPitch<kWidth> +
                                   column + lane / 8 % 2 * 8));
  b[0][0] = both[0], b[0][1] = both[1], b[1][0] = both[2], b[1][1] = both[3];
}
/// The same of the tile as it is: 16 rows from `row` on are summed over.
template <int kWidth>
TUTTI_DEVICE void loadRight(uint32_t (&b)[2][2], const uint16_t* tile, int row, int column) {
  const int lane = laneOf();
  uint32_t both[4];
  ptx::ldmatrixTrans(both, ptx::sharedAddress(tile + (row + lane % 16) * kHeadPitch<kWidth> +
                                              column + lane / 16 * 8));
  b[0][0] = both[0], b[0][1] = both[1], b[1][0] = both[2], b[1][1] = both[3];
}

/// products = the left tile's rows from `row` on, times the transposed right tile.
template <class Numbers, int kWidth, int kRowTiles, int kColumns>
TUTTI_DEVICE void multiplyRows(float (&products)[kRowTiles][kColumns][4], const uint16_t* left,
                               int row, const uint16_t* right) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) products[i][j][e] = 0;
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) loadLeft<kWidth>(a[i], left, row + 16 * i, k);
#pragma unroll
    for (int j = 0; j < kColumns; j += 2) {
      uint32_t b[2][2];
      loadTransposed<kWidth>(b, right, 8 * j, k);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        Numbers::addProduct(products[i][j], a[i], b[0]);
        Numbers::addProduct(products[i][j + 1], a[i], b[1]);
      }
    }
  }
}

/// sums += weights times the right tile. Weights are rounded to 16 bits where they are: a lane's
/// elements of two neighbouring column tiles are what it has of a left factor.
template <class Numbers, int kWidth, int kRowTiles, int kColumns>
TUTTI_DEVICE void addWeighted(float (&sums)[kRowTiles][kWidth / 8][4],
                              const float (&weights)[kRowTiles][kColumns][4],
                              const uint16_t* right) {
#pragma unroll
  for (int k = 0; k < kColumns; k += 2) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float(&pair)[4] = weights[i][k + e / 2];
        a[i][e] = Numbers::pack(pair[e % 2 * 2], pair[e % 2 * 2 + 1]);
      }
#pragma unroll
    for (int j = 0; j < kWidth / 8; j += 2) {
      uint32_t b[2][2];
      loadRight<kWidth>(b, right, 8 * k, 8 * j);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        Numbers::addProduct(sums[i][j], a[i], b[0]);
        Numbers::addProduct(sums[i][j + 1], a[i], b[1]);
      }
    }
  }
}

/// What a block works on. Blocks that run at the same time meet the same rows of few heads, which
/// then come from the second-level cache: heads go in groups, as many as have kCachedBytes of such
/// rows. Within a group tiles of the most work come first: `lastFirst` says that it is the last.
struct HeadTask {
  int32_t batch, head, first;
};
inline constexpr int64_t kCachedBytes = int64_t{16} << 20;
/// `otherRows`: that a head's tiles meet, of two operands.
TUTTI_DEVICE HeadTask headTaskOf(int32_t block, const AttentionSizes& sizes, int32_t heads,
                                 int32_t rows, int32_t tileRows, bool lastFirst,
                                 int64_t otherRows) {
  const int32_t tiles = (rows + tileRows - 1) / tileRows, all = sizes.batch * heads;
  const int64_t bytes =
      max(int64_t(2 * sizeof(uint16_t)) * otherRows * sizes.headWidth, int64_t{1});
  const auto ofGroup = int32_t(max(int64_t{1}, min(int64_t{all}, kCachedBytes / bytes)));
  const int32_t group = block / (ofGroup * tiles), inGroup = block % (ofGroup * tiles);
  const int32_t here = min(ofGroup, all - group * ofGroup), tile = inGroup / here;
  const int32_t head = group * ofGroup + inGroup % here;
  return {head / heads, head % heads, (lastFirst ? tiles - 1 - tile : tile) * tileRows};
}
/// How many there are.
TUTTI_DEVICE int32_t headTasks(const AttentionSizes& sizes, int32_t heads, int32_t rows,
                               int32_t tileRows) {
  return sizes.batch * heads * ((rows + tileRows - 1) / tileRows);
}
TUTTI_DEVICE HeadTask headTask(const AttentionSizes& sizes, int32_t heads, int32_t rows,
                               int32_t tileRows, bool lastFirst, int64_t otherRows) {
  return headTaskOf(int32_t(blockIdx.x), sizes, heads, rows, tileRows, lastFirst, otherRows);
}

/// Of both elements of a row tile, from an even column on.
TUTTI_DEVICE void storePair(const Elements& x, int64_t place, float low, float high, bool adds) {
  if (adds) {
    low += load<float>(x, place);
    high += load<float>(x, place + 1);
  }
  if (x.format == ElementFormat::Float32) {
    const float2 pair = make_float2(low, high);
    *reinterpret_cast<float2*>(static_cast<float*>(x.data) + place) = pair;
    return;
  }
  *reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(x.data) + place) =
      x.format == ElementFormat::BFloat16 ? ptx::packBf16(low, high) : ptx::packF16(low, high);
}

/// A row tile's sums times a factor for each of a lane's two rows, to rows from `row` on.
template <int kWidth, class Sums>
TUTTI_DEVICE void storeSums(const HeadRows& to, const HeadTask& task, int32_t row, int32_t rows,
                            const Sums& sums, const float (&factors)[2], bool adds) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int32_t own = row + laneOf() / 4 + 8 * h;
    if (own >= rows) continue;
    const int64_t first = task.batch * to.batchStride + own * to.rowStride +
                          int64_t(task.head) * kWidth + laneOf() % 4 * 2;
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j)
      storePair(to.elements, first + 8 * j, elementOf(sums, j, 2 * h) * factors[h],
                elementOf(sums, j, 2 * h + 1) * factors[h], adds);
  }
}

}  // namespace tutti::parallel::cuda
