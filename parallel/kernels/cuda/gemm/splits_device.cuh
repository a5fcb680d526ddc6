#pragma once

// The sum of what splits of the depth gave, in their order whichever was done first, so that the
// result has the same bits each time. A thread has four neighbours of a row, and reads those of
// four splits before it adds any. Rows and products are dimensions of the grid: nothing is divided.
//
// Bound: bytes, 4 (splits) of each element read and the element written.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/output_device.cuh"

namespace tutti::parallel::cuda {

/// Of a block: a row's columns are 4 of each thread.
inline constexpr int kSumAcross = 64, kSumRows = 4, kSumThreads = kSumAcross * kSumRows;

/// Four neighbours of all splits. Zeros in the place of those that there are not change nothing: a
/// sum that began with 0 is never -0.
TUTTI_DEVICE void addSplits(float (&sums)[4], const SumSplits& x, const float* from) {
  constexpr int kAhead = 4;
  for (int32_t split = 0; split < x.splits; split += kAhead, from += kAhead * x.splitStride) {
    float4 fours[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      fours[i] = split + i < x.splits ? *reinterpret_cast<const float4*>(from + i * x.splitStride)
                                      : make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      sums[0] += fours[i].x, sums[1] += fours[i].y;
      sums[2] += fours[i].z, sums[3] += fours[i].w;
    }
  }
}

inline __global__ void __launch_bounds__(kSumThreads)
    sumSplits(const __grid_constant__ SumSplits x) {
  const int32_t column = int32_t(blockIdx.x * kSumAcross + threadIdx.x) * 4;
  if (column >= x.out.columns) return;
  for (auto product = int32_t(blockIdx.z); product < x.out.batch; product += int32_t(gridDim.z)) {
    const GemmOutput out = outputOf(x.out, product, 0);
    const float* const from = x.partial + product * x.batchStride + column;
    for (auto row = int32_t(blockIdx.y * kSumRows + threadIdx.y); row < out.rows;
         row += int32_t(gridDim.y * kSumRows)) {
      float sums[4] = {0, 0, 0, 0};
      addSplits(sums, x, from + row * x.stride);
      storeFourSums(out, sums, row, column);
    }
  }
}

}  // namespace tutti::parallel::cuda
