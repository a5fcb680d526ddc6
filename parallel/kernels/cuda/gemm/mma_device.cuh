#pragma once

// c = a b (+ c) for sm_80 and newer: operands of 16 bits, or of float32 that are rounded to the 10
// bits of TF32's mantissa; sums in float32 by mma.sync. A block computes one unit of 128 rows by
// 128 columns, taking 128 bytes of the depth at a time (64 elements, or 32 of float32) through
// three stages in shared memory, which cp.async fills two steps ahead. Each of eight warps has 64
// rows by 32 columns of the sums.
//
// A stage has both operands as TMA would write them for wgmma (wgmma_device.cuh): K-major rows of
// 128 bytes, or MN-major panels of as many bytes, with the 16-byte chunks of a row exchanged by its
// number, so that ldmatrix finds eight rows in different banks. MN-major matrices of 16 bits are
// turned as they are loaded to registers; of float32, of which ldmatrix cannot turn any, each lane
// loads its own.
//
// Rows of an operand may begin anywhere: cp.async copies 16, 8 or 4 bytes, what all rows are
// aligned to, and what is aligned to 2 bytes alone passes through registers. What lies beyond the
// edges is filled with zeros.
//
// Bound: tensor cores, 2 * 128 * 128 * 64 operations a step for 32 KiB of operands, or half as
// many.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/arguments.h"
#include "parallel/kernels/cuda/gemm/output_device.cuh"
#include "parallel/kernels/cuda/gemm/pairs_device.cuh"
#include "parallel/kernels/cuda/gemm/tiles_device.cuh"

namespace tutti::parallel::cuda {

using ptx::Major;
using ptx::sharedAddress;
using ::tutti::cuda::dynamicShared;

inline constexpr int kMmaThreads = 256, kMmaWarps = 8, kMmaStages = 3;
inline constexpr int kMmaTile = 128, kLineBytes = 128, kChunkBytes = 16;
inline constexpr int kMmaSideBytes = kMmaTile * kLineBytes;

template <ElementFormat kFormat>
constexpr int kMmaBytes = kFormat == ElementFormat::Float32 ? 4 : 2;
/// Elements of a chunk; of a line, which is also how many of the depth a step has.
template <ElementFormat kFormat>
constexpr int kChunkOf = kChunkBytes / kMmaBytes<kFormat>;
template <ElementFormat kFormat>
constexpr int kLineOf = kLineBytes / kMmaBytes<kFormat>;

struct MmaShared {
  char a[kMmaStages][kMmaSideBytes], b[kMmaStages][kMmaSideBytes];
};
static_assert(sizeof(WarpStage) * kMmaWarps <= sizeof(MmaShared));

/// Where in a side's tile an element is; `outer` is a row of a or a column of b.
template <ElementFormat kFormat, Major kMajor>
TUTTI_DEVICE uint32_t elementAt(int outer, int depth) {
  constexpr int kLine = kLineOf<kFormat>, kChunk = kChunkOf<kFormat>;
  const int line = kMajor == Major::K ? outer : outer / kLine * kLine + depth;
  const int place = kMajor == Major::K ? depth : outer % kLine;
  return uint32_t(line * kLineBytes + (place / kChunk ^ line % 8) * kChunkBytes +
                  place % kChunk * kMmaBytes<kFormat>);
}

/// So many pieces of a chunk, the first `count` bytes and zeros.
template <int kBytes>
TUTTI_DEVICE void copyPieces(uint32_t to, const char* from, int count) {
#pragma unroll
  for (int i = 0; i < kChunkBytes; i += kBytes)
    ptx::cpAsync<kBytes>(to + uint32_t(i), count > i ? from + i : from,
                         uint32_t(min(max(count - i, 0), kBytes)));
}

/// The first `count` bytes of a chunk, and zeros.
TUTTI_DEVICE void copyChunk(char* to, const char* from, int count, int alignment) {
  const uint32_t address = sharedAddress(to);
  if (alignment == 16) return copyPieces<16>(address, from, count);
  if (alignment == 8) return copyPieces<8>(address, from, count);
  if (alignment == 4) return copyPieces<4>(address, from, count);
  const auto* const elements = reinterpret_cast<const uint16_t*>(from);
  uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t low = count > 4 * i ? elements[2 * i] : 0;
    const uint32_t high = count > 4 * i + 2 ? elements[2 * i + 1] : 0;
    pairs[i] = low | high << 16;
  }
  const uint4 word = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  *reinterpret_cast<uint4*>(to) = word;
}

template <ElementFormat kFormat, Major kMajor>
TUTTI_DEVICE void fillSide(char* to, const MmaSide& side, int32_t firstOuter, int32_t firstDepth,
                           int32_t depths) {
  constexpr int kChunk = kChunkOf<kFormat>, kBytes = kMmaBytes<kFormat>;
  constexpr int kAcross = (kMajor == Major::K ? kLineOf<kFormat> : kMmaTile) / kChunk;
  const auto* const data = static_cast<const char*>(side.data);
#pragma unroll
  for (int i = int(threadIdx.x); i < kMmaSideBytes / kChunkBytes; i += kMmaThreads) {
    const int outer = kMajor == Major::K ? i / kAcross : i % kAcross * kChunk;
    const int depth = kMajor == Major::K ? i % kAcross * kChunk : i / kAcross;
    const int32_t o = firstOuter + outer, d = firstDepth + depth;
    const bool isThere = o < side.outers && d < depths;
    const int32_t left = kMajor == Major::K ? depths - d : side.outers - o;
    const int64_t at = kMajor == Major::K ? o * side.stride + d : d * side.stride + o;
    copyChunk(to + elementAt<kFormat, kMajor>(outer, depth), isThere ? data + at * kBytes : data,
              isThere ? min(left, kChunk) * kBytes : 0, side.alignment);
  }
}

template <Major kMajor>
TUTTI_DEVICE uint32_t roundedAt(const char* tile, int outer, int depth) {
  return ptx::roundTf32(*reinterpret_cast<const float*>(
      tile + elementAt<ElementFormat::Float32, kMajor>(outer, depth)));
}
template <int kCount>
TUTTI_DEVICE void roundAll(uint32_t (&values)[kCount]) {
#pragma unroll
  for (uint32_t& value : values) value = ptx::roundTf32(__uint_as_float(value));
}

/// An A fragment: 16 rows of a from `row` on, and 16 of the depth, or 8 of float32.
template <ElementFormat kFormat, Major kMajor>
TUTTI_DEVICE void loadRows(uint32_t (&to)[4], const char* a, int row, int depth) {
  const int lane = int(threadIdx.x) % 32;
  const auto address = [&](int outer, int d) {
    return sharedAddress(a + elementAt<kFormat, kMajor>(row + outer, depth + d));
  };
  if constexpr (kMajor == Major::K) {
    ptx::ldmatrix(to, address(lane % 16, lane / 16 * kChunkOf<kFormat>));
    if constexpr (kFormat == ElementFormat::Float32) roundAll(to);
  } else if constexpr (kFormat != ElementFormat::Float32) {
    ptx::ldmatrixTrans(to, address(lane / 8 % 2 * 8, lane % 8 + lane / 16 * 8));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to[i] = roundedAt<kMajor>(a, row + lane / 4 + 8 * (i % 2), depth + lane % 4 + 4 * (i / 2));
  }
}
/// Two B fragments: 16 columns of b from `column` on.
template <ElementFormat kFormat, Major kMajor>
TUTTI_DEVICE void loadColumns(uint32_t (&to)[2][2], const char* b, int column, int depth) {
  const int lane = int(threadIdx.x) % 32;
  const auto address = [&](int outer, int d) {
    return sharedAddress(b + elementAt<kFormat, kMajor>(column + outer, depth + d));
  };
  uint32_t both[4];
  if constexpr (kMajor == Major::K) {
    ptx::ldmatrix(both, address(lane % 8 + lane / 16 * 8, lane / 8 % 2 * kChunkOf<kFormat>));
    if constexpr (kFormat == ElementFormat::Float32) roundAll(both);
  } else if constexpr (kFormat != ElementFormat::Float32) {
    ptx::ldmatrixTrans(both, address(lane / 16 * 8, lane % 16));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      both[i] =
          roundedAt<kMajor>(b, column + lane / 4 + 8 * (i / 2), depth + lane % 4 + 4 * (i % 2));
  }
  to[0][0] = both[0], to[0][1] = both[1], to[1][0] = both[2], to[1][1] = both[3];
}

/// A warp's sums: of four times 16 rows, each of 32 columns.
using MmaSums = float[4][kSumsOfStage];

template <ElementFormat kFormat>
TUTTI_DEVICE void addProduct(float (&sums)[kSumsOfStage], int columns, const uint32_t (&a)[4],
                             const uint32_t (&b)[2]) {
  float four[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) four[i] = sums[4 * columns + i];
  if constexpr (kFormat == ElementFormat::BFloat16)
    ptx::mmaBf16(four, a, b);
  else if constexpr (kFormat == ElementFormat::Float16)
    ptx::mmaF16(four, a, b);
  else
    ptx::mmaTf32(four, a, b);
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[4 * columns + i] = four[i];
}

template <ElementFormat kFormat, Major kMajorA, Major kMajorB>
TUTTI_DEVICE void addStep(MmaSums& sums, const char* a, const char* b) {
  const int warp = int(threadIdx.x) / 32, row = warp % 2 * 64, column = warp / 2 * 32;
#pragma unroll
  for (int depth = 0; depth < kLineOf<kFormat>; depth += 2 * kChunkOf<kFormat>) {
    uint32_t columns[2][2][2];
#pragma unroll
    for (int j = 0; j < 2; ++j)
      loadColumns<kFormat, kMajorB>(columns[j], b, column + 16 * j, depth);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t rows[4];
      loadRows<kFormat, kMajorA>(rows, a, row + 16 * i, depth);
#pragma unroll
      for (int j = 0; j < 4; ++j) addProduct<kFormat>(sums[i], j, rows, columns[j / 2][j % 2]);
    }
  }
}

template <ElementFormat kFormat, Major kMajorA, Major kMajorB>
__global__ void __launch_bounds__(kMmaThreads) mmaGemm(const __grid_constant__ MmaGemm x) {
  auto& shared = *dynamicShared<MmaShared>();
  const GemmUnit unit = unitAt(x.tiles, int32_t(blockIdx.x));
  const int32_t row = unit.row * kMmaTile, column = unit.column * kMmaTile;
  const MmaSide left = sideOf(x.a, unit.product, kMmaBytes<kFormat>);
  const MmaSide right = sideOf(x.b, unit.product, kMmaBytes<kFormat>);
  const auto fill = [&](int32_t step) {
    if (step < unit.steps) {
      const int32_t depth = (unit.firstStep + step) * kLineOf<kFormat>;
      fillSide<kFormat, kMajorA>(shared.a[step % kMmaStages], left, row, depth, x.depth);
      fillSide<kFormat, kMajorB>(shared.b[step % kMmaStages], right, column, depth, x.depth);
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
  const GemmOutput out = outputOf(x.out, unit.product, unit.split);
  const int32_t firstRow = row + warp % 2 * 64, firstColumn = column + warp / 2 * 32;
  if (out.way == OutputWay::Pairs)
    storePairs<kStageRows>(out, sums, firstRow, firstColumn);
  else
    storeAny<kStageRows>(out, dynamicShared<WarpStage>()[warp], sums, firstRow, firstColumn);
}

}  // namespace tutti::parallel::cuda
