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

/// Four neighbours of a row, from a multiple of four on, however c is aligned.
TUTTI_DEVICE void storeFourSums(const GemmOutput& out, float (&sums)[4], int32_t row,
                                int32_t column) {
  if (out.isVector != 0) return storeSums(out, sums, row, column);
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

TUTTI_DEVICE bool isPlain(const Epilogue& e) {
  return e.scale == 1 && e.bias.data == nullptr && e.activation == Activation::None &&
         e.residual.elements.data == nullptr;
}

/// Of c as a vector's and without an epilogue: what is there of a lane's rows is read at once.
TUTTI_DEVICE void storePlain(const GemmOutput& out, const WarpStage& stage, int32_t row,
                             int32_t column) {
  constexpr int kRows = kStageRows / 4;
  const int lane = int(threadIdx.x) % 32, place = lane % 8 * 4;
  if (column + place >= out.columns) return;
  float sums[kRows][4], there[kRows][4] = {};
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int32_t at = row + lane / 8 + 4 * i;
    if (out.accumulate != 0 && at < out.rows)
      loadFour(out.c.elements, at * out.c.stride + column + place, there[i]);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int32_t at = row + lane / 8 + 4 * i;
    const float4 four = *reinterpret_cast<const float4*>(&stage.sums[lane / 8 + 4 * i][place]);
    sums[i][0] = four.x, sums[i][1] = four.y, sums[i][2] = four.z, sums[i][3] = four.w;
    if (out.accumulate != 0) {
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[i][j] += there[i][j];
    }
    if (at < out.rows) storeFour(out.c.elements, at * out.c.stride + column + place, sums[i]);
  }
}

TUTTI_DEVICE void storeStage(const GemmOutput& out, const WarpStage& stage, int32_t row,
                             int32_t column) {
  const int lane = int(threadIdx.x) % 32, place = lane % 8 * 4;
  if (out.isVector == 0) {  // then a lane has one column
#pragma unroll 1
    for (int i = 0; i < kStageRows; ++i) {
      float sum[1] = {stage.sums[i][lane]};
      storeSums(out, sum, row + i, column + lane);
    }
    return;
  }
  if (isPlain(out.epilogue)) return storePlain(out, stage, row, column);
#pragma unroll 1
  for (int i = lane / 8; i < kStageRows; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(&stage.sums[i][place]);
    float sums[4] = {four.x, four.y, four.z, four.w};
    storeSums(out, sums, row + i, column + place);
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
