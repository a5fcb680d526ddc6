#pragma once

// From a warp's sums to c, the same for all kernels of this folder: 16 rows by 32 columns at a time
// go through the warp's own shared memory, so that lanes then have four neighbours of a row each
// and eight lanes 32, which is 64 or 128 adjacent bytes of c.
//
// A lane's sums are those of mma and wgmma: sum 4 j + h of 16 is in row lane / 4 + 8 (h / 2),
// column 8 j + 2 (lane % 4) + h % 2.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/epilogue_device.cuh"
#include "parallel/kernels/cuda/gemm/arguments.h"

namespace tutti::parallel::cuda {

inline constexpr int kStageRows = 16, kStageColumns = 32, kSumsOfStage = 16;
/// Eight more columns: the four rows that half a warp writes to are in different banks.
struct alignas(16) WarpStage {
  float sums[kStageRows][kStageColumns + 8];
};

/// Four neighbours of a row, from a multiple of four on, however c is aligned; also the last of a
/// row, of which some are beyond it.
TUTTI_DEVICE void storeFourSums(const GemmOutput& out, const float (&sums)[4], int32_t row,
                                int32_t column) {
  if (out.isVector != 0 && column + 4 <= out.columns) return storeSums(out, sums, row, column);
#pragma unroll 1
  for (int turn = 0; turn < 4; ++turn) {
    float sum[1] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i == turn) sum[0] = sums[i];
    storeSums(out, sum, row, column + turn);
  }
}

/// Sums `first` to `first` + kSumsOfStage of a lane.
template <int kCount>
TUTTI_DEVICE void stageSums(WarpStage& stage, const float (&sums)[kCount], int first) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kSumsOfStage; i += 2) {
    float* const to = &stage.sums[lane / 4 + 8 * (i / 2 % 2)][8 * (i / 4) + 2 * (lane % 4)];
    *reinterpret_cast<float2*>(to) = make_float2(sums[first + i], sums[first + i + 1]);
  }
}

TUTTI_DEVICE void storeStage(const GemmOutput& out, const WarpStage& stage, int32_t row,
                             int32_t column) {
  constexpr int kRowsOfLane = 4, kRowStep = kStageRows / kRowsOfLane;
  const int lane = int(threadIdx.x) % 32, first = lane / 8, place = lane % 8 * 4;
  if (column >= out.columns) return;
  if (out.isVector == 0) {  // then a lane has one column
#pragma unroll 1
    for (int i = 0; i < kStageRows; ++i) {
      const float sum[1] = {stage.sums[i][lane]};
      storeSums(out, sum, row + i, column + lane);
    }
    return;
  }
  const auto load = [&](int i, float(&sums)[4]) {
    const float4 four = *reinterpret_cast<const float4*>(&stage.sums[i][place]);
    sums[0] = four.x, sums[1] = four.y, sums[2] = four.z, sums[3] = four.w;
  };
  if (row + kStageRows <= out.rows && column + place + 4 <= out.columns) {
    float sums[kRowsOfLane][4];
#pragma unroll
    for (int i = 0; i < kRowsOfLane; ++i) load(first + i * kRowStep, sums[i]);
    return storeSums<kRowStep>(out, sums, row + first, column + place);
  }
#pragma unroll 1
  for (int i = first; i < kStageRows; i += kRowStep) {
    float sums[4];
    load(i, sums);
    storeFourSums(out, sums, row + i, column + place);
  }
}

/// All sums of a warp: 16 rows from `row` on, kCount / 16 times 32 columns from `column` on. The
/// loop is not unrolled, so that its code is there once; each turn takes its sums from registers.
template <int kCount>
TUTTI_DEVICE void storeWarp(const GemmOutput& out, WarpStage& stage, const float (&sums)[kCount],
                            int32_t row, int32_t column) {
#pragma unroll 1
  for (int turn = 0; turn < kCount / kSumsOfStage; ++turn) {
#pragma unroll
    for (int i = 0; i < kCount / kSumsOfStage; ++i)
      if (i == turn) stageSums(stage, sums, i * kSumsOfStage);
    __syncwarp();
    storeStage(out, stage, row, column + turn * kStageColumns);
    __syncwarp();
  }
}

}  // namespace tutti::parallel::cuda
