#pragma once

// From a warp's sums to c, in the way that all kernels of this folder have for any output (others
// are in lines_device.cuh and pairs_device.cuh): 16 rows by 32 columns at a time go through the
// warp's own shared memory, so that lanes then have four neighbours of a row each and eight lanes
// 32, which is 64 or 128 adjacent bytes of c.
//
// A lane's sums are those of mma and wgmma: sum 4 j + h of 16 is in row lane / 4 + 8 (h / 2),
// column 8 j + 2 (lane % 4) + h % 2.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/epilogue_device.cuh"
#include "parallel/kernels/cuda/gemm/arguments.h"

namespace tutti::parallel::cuda {

inline constexpr int kStageRows = 16, kStageColumns = 32, kSumsOfStage = 16;
struct alignas(128) WarpStage {
  union {
    /// Eight more columns: the four rows that half a warp writes to are in different banks.
    float sums[kStageRows][kStageColumns + 8];
    char lines[2][kStageRows][128];  ///< for lines_device.cuh
  };
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
    const float2 pair = make_float2(sums[first + i], sums[first + i + 1]);
    *reinterpret_cast<float2*>(to) = pair;
  }
}

TUTTI_DEVICE void storeStage(const GemmOutput& out, const WarpStage& stage, int32_t row,
                             int32_t column) {
  constexpr int kRowsOfLane = 4, kRowStep = kStageRows / kRowsOfLane;
  const int lane = int(threadIdx.x) % 32, first = lane / 8, place = lane % 8 * 4;
  if (out.isVector == 0 || row + kStageRows > out.rows || column + kStageColumns > out.columns) {
    if (column + lane >= out.columns) return;  // here a lane has one column
#pragma unroll 1
    for (int i = 0; i < kStageRows; ++i) {
      const float sum[1] = {stage.sums[i][lane]};
      storeSums(out, sum, row + i, column + lane);
    }
    return;
  }
  float sums[kRowsOfLane][4];
#pragma unroll
  for (int i = 0; i < kRowsOfLane; ++i) {
    const float4 four = *reinterpret_cast<const float4*>(&stage.sums[first + i * kRowStep][place]);
    sums[i][0] = four.x, sums[i][1] = four.y, sums[i][2] = four.z, sums[i][3] = four.w;
  }
  storeSums<kRowStep>(out, sums, row + first, column + place);
}

/// All sums of a warp, in any way: blocks of 16 rows kRowStep apart, from `row` on, each of
/// kCount / 16 times 32 columns from `column` on. The loop is not unrolled, so that its code is
/// there once; each turn takes its sums from registers.
template <int kRowStep, int kBlocks, int kCount>
TUTTI_DEVICE void storeAny(const GemmOutput& out, WarpStage& stage,
                           const float (&sums)[kBlocks][kCount], int32_t row, int32_t column) {
  constexpr int kTurns = kCount / kSumsOfStage;
#pragma unroll 1
  for (int turn = 0; turn < kBlocks * kTurns; ++turn) {
#pragma unroll
    for (int i = 0; i < kBlocks * kTurns; ++i)
      if (i == turn) stageSums(stage, sums[i / kTurns], i % kTurns * kSumsOfStage);
    __syncwarp();
    storeStage(out, stage, row + turn / kTurns * kRowStep, column + turn % kTurns * kStageColumns);
    __syncwarp();
  }
}

}  // namespace tutti::parallel::cuda
