#pragma once

// Sums over rows, of each column, in two stages.
//   1. A block has a tile of columns, as wide as a line of the memory, and a slice of the rows. Its
//      threads are kColumnLanes times kRowLanes: each has a run of the columns, and every
//      kRowLanes-th row of the slice, of which kRowsOfThread are under way at once. What they have
//      is joined: of a warp's four rows by a tree, of the warps in their order.
//   2. Of each column the slices: kSliceGroups threads add every so many of them, and one adds what
//      these have, and what was there before. Of a tile the block does this whose slice is stored
//      last, by a counter: nobody waits, and no second launch either. Where there are more tiles
//      than counters, and of what norms_device.cuh left of slices, it is a launch of its own.
// One slice is stored without the second stage. Slices are cut by the number of rows alone
// (slicesOf()), and are added in one order whichever comes last, so the order of a sum does not
// depend on the width, the types, the launches or the GPU: a column has the same bits in a matrix
// and in a part of it.
//
// Bound: the memory's bandwidth; bytes of an element, of which the type has b:
//   biasGradient                       read b
//   rmsNormWeights, layerNormWeights   read 2 b, once for both sums of the latter; where the
//                                      norm's backward left sums, 4 bytes of each for a slice
// Partial sums are 8 bytes, written and read, for kSliceRows or more elements, mostly in the
// second-level cache. Behind the last rows two waits for that cache are left: for a counter, and
// for the slices, all of which a thread has under way at once. Kernels are compiled for operands of
// one format of 16 bits and means and rstd of float32, besides those that look at each operand's.

#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/runs_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kColumnLanes = 8, kRowLanes = kThreads / kColumnLanes;
inline constexpr int kRowsOfThread = kSliceRows / kRowLanes;
/// Of the second stage: columns of a block, for sums that norms left in more slices fewer of them,
/// as wide as a sector of the memory; threads of a column; slices that each has under way at once.
inline constexpr int kColumnsOfBlock = 32, kColumnsOfNorms = 8;
template <int kColumns>
inline constexpr int kSliceGroups = kThreads / kColumns;
inline constexpr int kSlicesOfThread = kMostSlices / kSliceGroups<kColumnsOfBlock>;
inline constexpr int kBlockWarps = kThreads / 32;

template <int kRun>
inline constexpr int kTileColumns = kColumnLanes* kRun;

/// Where a sum goes that is complete.
struct ColumnResult {
  Elements sums;
  int32_t accumulate;
  TUTTI_DEVICE void store(int32_t column, float sum) const {
    cuda::store<float>(sums, column, accumulate != 0 ? sum + load<float>(sums, column) : sum);
  }
};
/// Of dy times the normalized x, or where there is no x of dy, the first; of dy besides, the
/// second.
TUTTI_DEVICE ColumnResult resultOf(const SlicedSums& x, int which) {
  if (which == 0) return {x.sums, x.accumulate};
  return {x.sumsOfDy, x.accumulateOfDy};
}

TUTTI_DEVICE float* partialOf(const SlicedSums& x, int which, int32_t slice) {
  return x.partial + (int64_t(which) * x.slices.count + slice) * x.width;
}

/// A block's columns and rows, and of them this thread's first.
template <int kRun>
struct Tile {
  int32_t slice, firstColumn, column, row, endRow;
  TUTTI_DEVICE explicit Tile(const SlicedSums& x) {
    const auto tiles = uint32_t(x.width + kTileColumns<kRun> - 1) / kTileColumns<kRun>;
    slice = int32_t(blockIdx.x / tiles);
    firstColumn = int32_t(blockIdx.x % tiles) * kTileColumns<kRun>;
    column = firstColumn + int32_t(threadIdx.x) % kColumnLanes * kRun;
    const int32_t firstRow = slice * x.slices.rows;
    row = firstRow + int32_t(threadIdx.x) / kColumnLanes;
    endRow = min(firstRow + x.slices.rows, x.rows);
  }
};

/// What a thread has of rows that are under way.
template <int kRun, bool kNormal, int kKnown>
struct RowBatch {
  static constexpr int kKnownOfRow = kKnown == kAnyFormat ? kAnyFormat : kFloat;
  RunWords<kRun> dy[kRowsOfThread] = {}, x[kNormal ? kRowsOfThread : 1] = {};
  float mean[kRowsOfThread] = {}, rstd[kRowsOfThread] = {};

  TUTTI_DEVICE void load(const SlicedSums& of, int32_t row, int32_t end, int32_t column) {
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i, row += kRowLanes) {
      if (row >= end) break;
      dy[i] = loadWords<kRun>(known<kKnown>(of.dy.elements), int64_t(row) * of.dy.stride + column);
      if constexpr (kNormal) {
        x[i] = loadWords<kRun>(known<kKnown>(of.x), int64_t(row) * of.width + column);
        mean[i] =
            of.mean.data == nullptr ? 0.0f : cuda::load<float>(known<kKnownOfRow>(of.mean), row);
        rstd[i] = cuda::load<float>(known<kKnownOfRow>(of.rstd), row);
      }
    }
  }

  /// dy and, where there is an x, dy times the normalized x, of row i.
  TUTTI_DEVICE void terms(const SlicedSums& of, int i, float (&dys)[kRun],
                          float (&products)[kRun]) const {
    widenWords(dy[i], known<kKnown>(of.dy.elements).format, dys);
    if constexpr (kNormal) {
      widenWords(x[i], known<kKnown>(of.x).format, products);
#pragma unroll
      for (int k = 0; k < kRun; ++k) products[k] = dys[k] * ((products[k] - mean[i]) * rstd[i]);
    }
  }
};

/// What parts of a block have of its columns. Warps' and groups' are in the same memory.
template <int kParts, int kColumns>
using Parts = float[kParts][kColumns];
template <int kParts, int kColumns>
TUTTI_DEVICE Parts<kParts, kColumns>& partsOfBlock() {
  TUTTI_SHARED(float, parts, [kParts][kColumns]);
  return parts;
}

/// In the order of the parts. Threads below kColumns get their column's sum. All threads must call
/// it, when they have written their parts.
template <int kParts, int kColumns>
TUTTI_DEVICE float joinParts(const float (&parts)[kParts][kColumns]) {
  __syncthreads();
  float sum = 0;
  if (int(threadIdx.x) < kColumns)
    for (int part = 0; part < kParts; ++part) sum += parts[part][threadIdx.x];
  __syncthreads();  // before others are written there
  return sum;
}

/// Of the rows of a block. Threads below kTileColumns get their column's sum. All threads must call
/// it.
template <int kRun>
TUTTI_DEVICE float joinRows(float (&sums)[kRun]) {
  auto& ofWarps = partsOfBlock<kBlockWarps, kTileColumns<kRun>>();
#pragma unroll
  for (int k = 0; k < kRun; ++k)
#pragma unroll
    for (int lanes = kColumnLanes; lanes < 32; lanes *= 2)
      sums[k] += __shfl_xor_sync(kAllLanes, sums[k], lanes);
  if (laneOf() < kColumnLanes)
#pragma unroll
    for (int k = 0; k < kRun; ++k) ofWarps[threadIdx.x / 32][laneOf() * kRun + k] = sums[k];
  return joinParts(ofWarps);
}

template <int kRun>
TUTTI_DEVICE void storeSlice(const SlicedSums& x, const Tile<kRun>& tile, int which,
                             float (&sums)[kRun]) {
  const float sum = joinRows<kRun>(sums);
  const int32_t column = tile.firstColumn + int32_t(threadIdx.x);
  if (int(threadIdx.x) >= kTileColumns<kRun> || column >= x.width) return;
  if (x.slices.count == 1)
    resultOf(x, which).store(column, sum);
  else
    partialOf(x, which, tile.slice)[column] = sum;
}

/// Of each column the slices, added by kGroups threads in the place of one. All threads of the
/// block must call it, and see what all slices have.
template <int kColumns, int kGroups>
TUTTI_DEVICE void storeColumns(const SlicedSums& x, int which, int32_t firstColumn) {
  constexpr int kLanes = kThreads / kGroups, kOfThread = kColumns / kLanes;
  auto& ofGroups = partsOfBlock<kGroups, kColumns>();
  const int lane = int(threadIdx.x) % kLanes, group = int(threadIdx.x) / kLanes;
  float sums[kOfThread] = {};
  for (int32_t first = group; first < x.slices.count; first += kGroups * kSlicesOfThread) {
    float partial[kSlicesOfThread][kOfThread];
#pragma unroll
    for (int i = 0; i < kSlicesOfThread; ++i)
#pragma unroll
      for (int k = 0; k < kOfThread; ++k) {
        const int32_t slice = first + i * kGroups, column = firstColumn + lane + k * kLanes;
        partial[i][k] =
            slice < x.slices.count && column < x.width ? partialOf(x, which, slice)[column] : 0.0f;
      }
#pragma unroll
    for (int i = 0; i < kSlicesOfThread; ++i)
#pragma unroll
      for (int k = 0; k < kOfThread; ++k) sums[k] += partial[i][k];
  }
#pragma unroll
  for (int k = 0; k < kOfThread; ++k) ofGroups[group][lane + k * kLanes] = sums[k];
  const float sum = joinParts(ofGroups);
  const int32_t column = firstColumn + int32_t(threadIdx.x);
  if (int(threadIdx.x) < kColumns && column < x.width) resultOf(x, which).store(column, sum);
}

/// To be called by all threads of a block that has stored its slice: true in the last block of the
/// tile, whose threads then see what the others have stored. The counter is zero again.
template <int kRun>
TUTTI_DEVICE bool isLastOfTile(const SlicedSums& x, const Tile<kRun>& tile) {
  __syncthreads();  // what all threads have stored is released by the first one
  bool isLast = false;
  if (threadIdx.x == 0) {
    uint32_t* const arrivals = x.arrivals.counts + tile.firstColumn / kTileColumns<kRun>;
    isLast = ptx::atomAddAcqRelGpu(arrivals, 1u) + 1 == uint32_t(x.slices.count);
    if (isLast) *arrivals = 0;
  }
  return __syncthreads_or(isLast) != 0;
}

/// kNormal: there is an x. kBoth: sums of dy are wanted besides.
template <int kRun, bool kNormal, bool kBoth, int kKnown>
__global__ void __launch_bounds__(kThreads) sumsOfSlices(const __grid_constant__ SlicedSums x) {
  static_assert(kNormal || !kBoth);
  const Tile<kRun> tile(x);
  float sums[kRun] = {}, ofDy[kRun] = {};
  RowBatch<kRun, kNormal, kKnown> batch;
  for (int32_t row = tile.row; row < tile.endRow && tile.column < x.width; row += kSliceRows) {
    batch.load(x, row, tile.endRow, tile.column);
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      if (row + i * kRowLanes >= tile.endRow) break;
      float dys[kRun], products[kRun];
      batch.terms(x, i, dys, products);
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        sums[k] += kNormal ? products[k] : dys[k];
        if (kBoth) ofDy[k] += dys[k];
      }
    }
  }
  storeSlice<kRun>(x, tile, 0, sums);
  if constexpr (kBoth) storeSlice<kRun>(x, tile, 1, ofDy);
  if (x.arrivals.counts == nullptr || !isLastOfTile(x, tile)) return;
  constexpr int kGroups = kSliceGroups<kColumnsOfBlock>;
  storeColumns<kTileColumns<kRun>, kGroups>(x, 0, tile.firstColumn);
  if constexpr (kBoth) storeColumns<kTileColumns<kRun>, kGroups>(x, 1, tile.firstColumn);
}

/// Blocks of the first sum, then those of the second.
template <int kColumns>
__global__ void __launch_bounds__(kThreads) sumsOfColumns(const __grid_constant__ SlicedSums x) {
  const auto blocks = uint32_t(x.width + kColumns - 1) / kColumns;
  storeColumns<kColumns, kSliceGroups<kColumns>>(x, int(blockIdx.x / blocks),
                                                 int32_t(blockIdx.x % blocks) * kColumns);
}

}  // namespace tutti::parallel::cuda
