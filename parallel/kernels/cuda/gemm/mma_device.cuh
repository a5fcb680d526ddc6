#pragma once

// c = a b (+ c) for sm_80 and newer: operands of 16 bits, sums in float32 by mma.sync. A block
// computes one unit of 128 rows by 128 columns, taking 64 of the depth at a time through three
// stages in shared memory, which cp.async fills two steps ahead. Each of eight warps has 64 rows by
// 32 columns of the sums.
//
// A stage has both operands as TMA would write them for wgmma (wgmma_device.cuh): K-major rows of
// 128 bytes, or MN-major panels of 64, with the 16-byte chunks of a row exchanged by its number, so
// that ldmatrix finds eight rows in different banks. MN-major matrices are turned as they are
// loaded to registers.
//
// Rows of an operand may begin anywhere: cp.async copies 16, 8 or 4 bytes, what all rows are
// aligned to, and what is aligned to 2 bytes alone passes through registers. What lies beyond the
// edges is filled with zeros.
//
// Bound: tensor cores, 2 * 128 * 128 * 64 operations a step for 32 KiB of operands.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/arguments.h"
#include "parallel/kernels/cuda/gemm/output_device.cuh"
#include "parallel/kernels/cuda/gemm/tiles_device.cuh"

namespace tutti::parallel::cuda {

using ptx::Major;
using ptx::sharedAddress;
using ::tutti::cuda::dynamicShared;

inline constexpr int kMmaThreads = 256, kMmaWarps = 8, kMmaStages = 3;
inline constexpr int kMmaTile = 128, kMmaSideBytes = kMmaTile * kStepDepth * 2;
inline constexpr int kChunkBytes = 16, kChunk = 8;  ///< the elements of one

struct MmaShared {
  char a[kMmaStages][kMmaSideBytes], b[kMmaStages][kMmaSideBytes];
};
static_assert(sizeof(WarpStage) * kMmaWarps <= sizeof(MmaShared));

/// Where in a side's tile the chunk of eight is whose first element has these coordinates; `outer`
/// is a row of a or a column of b.
template <Major kMajor>
TUTTI_DEVICE uint32_t chunkAt(int outer, int depth) {
  const int line = kMajor == Major::K ? outer : outer / 64 * 64 + depth;
  const int chunk = (kMajor == Major::K ? depth : outer % 64) / kChunk;
  return uint32_t(line * 128 + (chunk ^ line % 8) * kChunkBytes);
}

/// The first `count` of eight elements, and zeros.
TUTTI_DEVICE void copyChunk(char* to, const uint16_t* from, int count, int alignment) {
  const uint32_t address = sharedAddress(to);
  if (alignment == 16) return ptx::cpAsync<16>(address, from, uint32_t(count) * 2);
  const auto bytesFrom = [count](int first) { return uint32_t(max(count - first, 0)) * 2; };
  if (alignment == 8) {
    for (int i = 0; i < kChunk; i += 4)
      ptx::cpAsync<8>(address + 2 * i, count > i ? from + i : from, min(bytesFrom(i), 8u));
  } else if (alignment == 4) {
    for (int i = 0; i < kChunk; i += 2)
      ptx::cpAsync<4>(address + 2 * i, count > i ? from + i : from, min(bytesFrom(i), 4u));
  } else {
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < kChunk; i += 2)
      pairs[i / 2] = (count > i ? from[i] : 0u) | uint32_t(count > i + 1 ? from[i + 1] : 0) << 16;
    *reinterpret_cast<uint4*>(to) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
}

template <Major kMajor>
TUTTI_DEVICE void fillSide(char* to, const MmaSide& side, int32_t firstOuter, int32_t firstDepth,
                           int32_t depths) {
  const auto* const data = static_cast<const uint16_t*>(side.data);
#pragma unroll
  for (int i = int(threadIdx.x); i < kMmaSideBytes / kChunkBytes; i += kMmaThreads) {
    const int outer = kMajor == Major::K ? i / 8 : i % 16 * kChunk;
    const int depth = kMajor == Major::K ? i % 8 * kChunk : i / 16;
    const int32_t o = firstOuter + outer, d = firstDepth + depth;
    const bool isThere = o < side.outers && d < depths;
    const int32_t left = kMajor == Major::K ? depths - d : side.outers - o;
    const int64_t at = kMajor == Major::K ? o * side.stride + d : d * side.stride + o;
    copyChunk(to + chunkAt<kMajor>(outer, depth), isThere ? data + at : data,
              isThere ? min(left, kChunk) : 0, side.alignment);
  }
}

/// 16 rows of a from `row` on, 16 of the depth: an A fragment.
template <Major kMajor>
TUTTI_DEVICE void loadRows(uint32_t (&to)[4], const char* a, int row, int depth) {
  const int lane = int(threadIdx.x) % 32;
  if constexpr (kMajor == Major::K)
    ptx::ldmatrix(to, sharedAddress(a + chunkAt<kMajor>(row + lane % 16, depth + lane / 16 * 8)));
  else
    ptx::ldmatrixTrans(to, sharedAddress(a + chunkAt<kMajor>(row + lane / 8 % 2 * 8,
                                                             depth + lane % 8 + lane / 16 * 8)));
}
/// 16 columns of b: two B fragments.
template <Major kMajor>
TUTTI_DEVICE void loadColumns(uint32_t (&to)[2][2], const char* b, int column, int depth) {
  const int lane = int(threadIdx.x) % 32;
  uint32_t both[4];
  if constexpr (kMajor == Major::K)
    ptx::ldmatrix(both, sharedAddress(b + chunkAt<kMajor>(column + lane % 8 + lane / 16 * 8,
                                                          depth + lane / 8 % 2 * 8)));
  else
    ptx::ldmatrixTrans(
        both, sharedAddress(b + chunkAt<kMajor>(column + lane / 16 * 8, depth + lane % 16)));
  to[0][0] = both[0], to[0][1] = both[1], to[1][0] = both[2], to[1][1] = both[3];
}

/// A warp's sums: of four times 16 rows, each of 32 columns.
using MmaSums = float[4][kSumsOfStage];

template <Format kFormat>
TUTTI_DEVICE void addProduct(float (&sums)[kSumsOfStage], int columns, const uint32_t (&a)[4],
                             const uint32_t (&b)[2]) {
  float four[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) four[i] = sums[4 * columns + i];
  if constexpr (kFormat == Format::BFloat16)
    ptx::mmaBf16(four, a, b);
  else
    ptx::mmaF16(four, a, b);
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[4 * columns + i] = four[i];
}

template <Format kFormat, Major kMajorA, Major kMajorB>
TUTTI_DEVICE void addStep(MmaSums& sums, const char* a, const char* b) {
  const int warp = int(threadIdx.x) / 32, row = warp % 2 * 64, column = warp / 2 * 32;
#pragma unroll
  for (int depth = 0; depth < kStepDepth; depth += 16) {
    uint32_t columns[2][2][2];
#pragma unroll
    for (int j = 0; j < 2; ++j) loadColumns<kMajorB>(columns[j], b, column + 16 * j, depth);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t rows[4];
      loadRows<kMajorA>(rows, a, row + 16 * i, depth);
#pragma unroll
      for (int j = 0; j < 4; ++j) addProduct<kFormat>(sums[i], j, rows, columns[j / 2][j % 2]);
    }
  }
}

template <Format kFormat, Major kMajorA, Major kMajorB>
__global__ void __launch_bounds__(kMmaThreads) mmaGemm(const __grid_constant__ MmaGemm x) {
  auto& shared = *dynamicShared<MmaShared>();
  const GemmUnit unit = unitAt(x.tiles, int32_t(blockIdx.x));
  const int32_t row = unit.row * kMmaTile, column = unit.column * kMmaTile;
  const auto fill = [&](int32_t step) {
    if (step < unit.steps) {
      const int32_t depth = (unit.firstStep + step) * kStepDepth;
      fillSide<kMajorA>(shared.a[step % kMmaStages], x.a, row, depth, x.depth);
      fillSide<kMajorB>(shared.b[step % kMmaStages], x.b, column, depth, x.depth);
    }
    ptx::cpAsyncCommit();  // also of nothing, so that each step has a group
  };
  MmaSums sums = {};
  for (int32_t step = 0; step < kMmaStages - 1; ++step) fill(step);
  for (int32_t step = 0; step < unit.steps; ++step) {
    ptx::cpAsyncWait<kMmaStages - 2>();
    __syncthreads();  // the step is there for all, and all have done the one before
    fill(step + kMmaStages - 1);
    addStep<kFormat, kMajorA, kMajorB>(sums, shared.a[step % kMmaStages],
                                       shared.b[step % kMmaStages]);
  }
  ptx::cpAsyncWait<0>();
  __syncthreads();  // stages are no longer read
  const int warp = int(threadIdx.x) / 32;
  WarpStage& stage = dynamicShared<WarpStage>()[warp];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    storeWarp(outputOf(x.out, unit.split), stage, sums[i], row + warp % 2 * 64 + 16 * i,
              column + warp / 2 * 32);
}

}  // namespace tutti::parallel::cuda
