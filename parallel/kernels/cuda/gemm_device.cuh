#pragma once

// c = a * b (+ c), or what an epilogue makes of it, by tiles: a block computes kGemmTile rows and
// columns of c and takes kGemmDepth of the dimension that is summed over at a time through shared
// memory; a thread has kPerThread rows and columns, kSide apart, whose sums are in registers. Each
// sum is in the order of that dimension, whatever the sizes.
//
// Bound: additions of this type outside the tensor cores; an element that was loaded from shared
// memory is used kPerThread times.

#include "parallel/kernels/cuda/epilogue_device.cuh"
#include "parallel/kernels/cuda/launches.h"

namespace tutti::parallel::cuda {

inline constexpr int kGemmTile = 64, kGemmDepth = 16, kGemmThreads = 256;
inline constexpr int kSide = 16;  // threads are a square
inline constexpr int kPerThread = kGemmTile / kSide;

/// Rows of a or columns of b, [depth][tile]; wider than the tile, so that threads that load along
/// the depth store to different banks.
template <class T>
using GemmTile = T[kGemmDepth][kGemmTile + 2];

/// What a tile is taken from: `outer` are a's rows or b's columns.
struct GemmSide {
  DeviceMatrix from;
  int32_t outers, depth;
  bool isDepthAdjacent;
};

/// Zeros where there is nothing.
template <class T>
TUTTI_DEVICE void fillTile(GemmTile<T>& tile, const GemmSide& side, int32_t firstOuter,
                           int32_t firstDepth) {
  const int thread = int(threadIdx.x);
  for (int i = thread; i < kGemmTile * kGemmDepth; i += kGemmThreads) {
    const int outer = side.isDepthAdjacent ? i / kGemmDepth : i % kGemmTile;
    const int depth = side.isDepthAdjacent ? i % kGemmDepth : i / kGemmTile;
    const int32_t o = firstOuter + outer, d = firstDepth + depth;
    const int64_t at = side.isDepthAdjacent ? o * side.from.stride + d : d * side.from.stride + o;
    tile[depth][outer] = o < side.outers && d < side.depth ? load<T>(side.from.elements, at) : T(0);
  }
}

template <class T>
TUTTI_DEVICE void addProducts(T (&sums)[kPerThread][kPerThread], const GemmTile<T>& a,
                              const GemmTile<T>& b) {
  const int row = int(threadIdx.x) / kSide, column = int(threadIdx.x) % kSide;
#pragma unroll
  for (int d = 0; d < kGemmDepth; ++d) {
    T left[kPerThread], right[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      left[i] = a[d][row + kSide * i];
      right[i] = b[d][column + kSide * i];
    }
#pragma unroll
    for (int i = 0; i < kPerThread; ++i)
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) sums[i][j] += left[i] * right[j];
  }
}

/// The loop is not unrolled, so that its code is there once; each turn takes its sum from
/// registers.
template <class T>
TUTTI_DEVICE void storeSquare(const GemmOutput& out, const T (&sums)[kPerThread][kPerThread],
                              int32_t firstRow, int32_t firstColumn) {
  const int32_t row = firstRow + int(threadIdx.x) / kSide;
  const int32_t column = firstColumn + int(threadIdx.x) % kSide;
#pragma unroll 1
  for (int turn = 0; turn < kPerThread * kPerThread; ++turn) {
    T sum[1] = {};
#pragma unroll
    for (int i = 0; i < kPerThread * kPerThread; ++i)
      if (i == turn) sum[0] = sums[i / kPerThread][i % kPerThread];
    storeSums(out, sum, row + turn / kPerThread * kSide, column + turn % kPerThread * kSide);
  }
}

TUTTI_DEVICE DeviceMatrix ofProduct(const DeviceMatrix& x, int64_t batchStride, int32_t product) {
  return {movedBy(x.elements, product * batchStride), x.stride};
}

/// A block for each tile of c, those of a row of tiles one after the other.
template <class T>
__global__ void __launch_bounds__(kGemmThreads) gemm(const __grid_constant__ Gemm x) {
  TUTTI_SHARED(GemmTile<T>, a, );
  TUTTI_SHARED(GemmTile<T>, b, );
  const int32_t acrossTiles = (x.out.columns + kGemmTile - 1) / kGemmTile;
  const int32_t tiles = (x.out.rows + kGemmTile - 1) / kGemmTile * acrossTiles;
  const int32_t product = int32_t(blockIdx.x) / tiles, tile = int32_t(blockIdx.x) % tiles;
  const int32_t firstRow = tile / acrossTiles * kGemmTile;
  const int32_t firstColumn = tile % acrossTiles * kGemmTile;
  const GemmSide left{ofProduct(x.a, x.batchStrideA, product), x.out.rows, x.depth,
                      x.transposeA == 0};
  const GemmSide right{ofProduct(x.b, x.batchStrideB, product), x.out.columns, x.depth,
                       x.transposeB != 0};
  T sums[kPerThread][kPerThread] = {};
  for (int32_t depth = 0; depth < x.depth; depth += kGemmDepth) {
    fillTile<T>(a, left, firstRow, depth);
    fillTile<T>(b, right, firstColumn, depth);
    __syncthreads();
    addProducts<T>(sums, a, b);
    __syncthreads();
  }
  storeSquare(outputOf(x.out, product, 0), sums, firstRow, firstColumn);
}

}  // namespace tutti::parallel::cuda
