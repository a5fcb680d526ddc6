#pragma once

// c = a b (+ c) in float32 as it is, without tensor cores. A block computes one unit of 128 rows by
// 128 columns, a thread of it 8 by 8: four rows and four more 64 below, and columns likewise, so
// that what it takes from shared memory are vectors, and each is used 8 times. 16 of the depth are
// in shared memory at a time, [depth][row or column], while cp.async brings the next 16: one by one
// what is turned on the way, 16 bytes at a time what lies there so already and is aligned.
//
// A sum is in the order of the depth, as the reference kernel's is, and has its bits where the
// depth is not split.
//
// Bound: additions, 128 * 128 * 16 a step by 128 lanes of a multiprocessor.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/arguments.h"
#include "parallel/kernels/cuda/gemm/output_device.cuh"
#include "parallel/kernels/cuda/gemm/tiles_device.cuh"

namespace tutti::parallel::cuda {

using ptx::Major;

inline constexpr int kSimtThreads = 256, kSimtTile = 128, kSimtDepth = 16;
inline constexpr int kSimtSide = 16, kSimtHalf = kSimtTile / 2;  ///< threads are a square

/// Wider than the tile: threads that store along the depth meet fewer others in a bank.
struct alignas(16) SimtTile {
  float values[kSimtDepth][kSimtTile + 4];
};
/// One element, or a zero.
TUTTI_DEVICE void copyOne(float& to, const float* from, bool isThere, const float* otherwise) {
  ptx::cpAsync<4>(ptx::sharedAddress(&to), isThere ? from : otherwise, isThere ? 4 : 0);
}

/// A thread's part of a step, zeros where there is nothing.
template <Major kMajor>
TUTTI_DEVICE void fillTile(SimtTile& tile, const MmaSide& side, int32_t firstOuter,
                           int32_t firstDepth, int32_t depths) {
  const auto* const data = static_cast<const float*>(side.data);
  constexpr int kAtOnce = kMajor == Major::K ? 1 : 4;
#pragma unroll
  for (int i = int(threadIdx.x) * kAtOnce; i < kSimtTile * kSimtDepth;
       i += kSimtThreads * kAtOnce) {
    const int outer = kMajor == Major::K ? i / kSimtDepth : i % kSimtTile;
    const int depth = kMajor == Major::K ? i % kSimtDepth : i / kSimtTile;
    const int32_t o = firstOuter + outer, d = firstDepth + depth;
    float* const to = &tile.values[depth][outer];
    if constexpr (kMajor == Major::K) {
      copyOne(*to, data + o * side.stride + d, o < side.outers && d < depths, data);
    } else {
      const float* const from = data + d * side.stride + o;
      const int32_t left = d < depths ? side.outers - o : 0;
      if (side.alignment == 16) {
        ptx::cpAsync<16>(ptx::sharedAddress(to), left > 0 ? from : data,
                         uint32_t(4 * min(max(left, 0), 4)));
        continue;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) copyOne(to[j], from + j, j < left, data);
    }
  }
}

/// Four from `place` on, and four from half a tile behind.
TUTTI_DEVICE void loadEight(float (&values)[8], const float* line, int place) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 four = *reinterpret_cast<const float4*>(line + place + half * kSimtHalf);
    values[4 * half] = four.x, values[4 * half + 1] = four.y;
    values[4 * half + 2] = four.z, values[4 * half + 3] = four.w;
  }
}

TUTTI_DEVICE void addSimtStep(float (&sums)[8][8], const SimtTile& a, const SimtTile& b) {
  const int row = int(threadIdx.x) / kSimtSide * 4, column = int(threadIdx.x) % kSimtSide * 4;
#pragma unroll
  for (int depth = 0; depth < kSimtDepth; ++depth) {
    float rows[8], columns[8];
    loadEight(rows, a.values[depth], row);
    loadEight(columns, b.values[depth], column);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[i][j] += rows[i] * columns[j];
  }
}

/// The loop is not unrolled, as in storeAny().
TUTTI_DEVICE void storeSquare(const GemmOutput& out, const float (&sums)[8][8], int32_t firstRow,
                              int32_t firstColumn) {
  const int row = int(threadIdx.x) / kSimtSide * 4, column = int(threadIdx.x) % kSimtSide * 4;
#pragma unroll 1
  for (int turn = 0; turn < 16; ++turn) {
    float four[4] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (i == turn) {
#pragma unroll
        for (int j = 0; j < 4; ++j) four[j] = sums[i / 2][4 * (i % 2) + j];
      }
    storeFourSums(out, four, firstRow + row + turn / 8 * kSimtHalf + turn / 2 % 4,
                  firstColumn + column + turn % 2 * kSimtHalf);
  }
}

template <Major kMajorA, Major kMajorB>
__global__ void __launch_bounds__(kSimtThreads, 2) simtGemm(const __grid_constant__ SimtGemm x) {
  TUTTI_SHARED(SimtTile, a, [2]);
  TUTTI_SHARED(SimtTile, b, [2]);
  const GemmUnit unit = unitAt(x.tiles, int32_t(blockIdx.x));
  const int32_t row = unit.row * kSimtTile, column = unit.column * kSimtTile;
  const MmaSide left = sideOf(x.a, unit.product, sizeof(float));
  const MmaSide right = sideOf(x.b, unit.product, sizeof(float));
  const auto fill = [&](int32_t step) {
    const int32_t depth = (unit.firstStep + step) * kSimtDepth;
    fillTile<kMajorA>(a[step % 2], left, row, depth, x.depth);
    fillTile<kMajorB>(b[step % 2], right, column, depth, x.depth);
    ptx::cpAsyncCommit();
  };
  float sums[8][8] = {};
  fill(0);
  for (int32_t step = 0; step < unit.steps; ++step) {
    ptx::cpAsyncWait<0>();
    __syncthreads();  // the step is there for all, and all have done the one before
    if (step + 1 < unit.steps) fill(step + 1);
    addSimtStep(sums, a[step % 2], b[step % 2]);
  }
  storeSquare(outputOf(x.out, unit.product, unit.split), sums, row, column);
}

}  // namespace tutti::parallel::cuda
