#pragma once

// From a warp's sums to c, the same for all kernels of this folder: 16 rows by 32 columns at a time
// go through the warp's own shared memory, so that lanes then have four neighbours of a row each
// and eight lanes 32, which is 64 or 128 adjacent bytes of c.
//
// A lane's sums are those of mma and wgmma: sum 4 j + h of 16 is in row lane / 4 + 8 (h / 2),
// column 8 j + 2 (lane % 4) + h % 2.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/gemm/arguments.h"

namespace tutti::parallel::cuda {

namespace ptx = ::tutti::cuda::ptx;

inline constexpr int kStageRows = 16, kStageColumns = 32, kSumsOfStage = 16;
/// Eight more columns: the four rows that half a warp writes to are in different banks.
struct alignas(16) WarpStage {
  float sums[kStageRows][kStageColumns + 8];
};

TUTTI_DEVICE void loadFour(const Elements& x, int64_t at, float (&values)[4]) {
  if (x.format == Format::Float32) {
    const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(x.data) + at);
    values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
    return;
  }
  const uint2 four = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(x.data) + at);
  const uint32_t pairs[2] = {four.x, four.y};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto bits = uint16_t(pairs[i / 2] >> 16 * (i % 2));
    values[i] = x.format == Format::BFloat16 ? widenBrain(bits) : widenHalf(bits);
  }
}

/// Rounded by the processor's instructions, which differ from store() in the bits of a NaN alone.
TUTTI_DEVICE void storeFour(const Elements& x, int64_t at, const float (&values)[4]) {
  if (x.format == Format::Float32) {
    *reinterpret_cast<float4*>(static_cast<float*>(x.data) + at) =
        make_float4(values[0], values[1], values[2], values[3]);
    return;
  }
  const bool isBrain = x.format == Format::BFloat16;
  const uint32_t low =
      isBrain ? ptx::packBf16(values[0], values[1]) : ptx::packF16(values[0], values[1]);
  const uint32_t high =
      isBrain ? ptx::packBf16(values[2], values[3]) : ptx::packF16(values[2], values[3]);
  *reinterpret_cast<uint2*>(static_cast<uint16_t*>(x.data) + at) = make_uint2(low, high);
}

/// Four sums of a row, from a column on that is a multiple of four; those beyond the edges of c
/// are dropped.
TUTTI_DEVICE void storeSums(const GemmOutput& out, float (&sums)[4], int32_t row, int32_t column) {
  if (row >= out.rows || column >= out.columns) return;
  const int64_t at = row * out.c.stride + column;
  const Elements& c = out.c.elements;
  if (out.isVector != 0 && column + 4 <= out.columns) {
    if (out.accumulate != 0) {
      float before[4];
      loadFour(c, at, before);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] += before[i];
    }
    return storeFour(c, at, sums);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (column + i >= out.columns) continue;
    const float before = out.accumulate != 0 ? load<float>(c, at + i) : 0;
    store<float>(c, at + i, before + sums[i]);
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
  const int lane = int(threadIdx.x) % 32, place = lane % 8 * 4;
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

/// The output of a split.
TUTTI_DEVICE GemmOutput outputOf(const GemmOutput& out, int32_t split) {
  GemmOutput own = out;
  own.c.elements.data = static_cast<char*>(out.c.elements.data) + split * out.splitBytes;
  return own;
}

}  // namespace tutti::parallel::cuda
