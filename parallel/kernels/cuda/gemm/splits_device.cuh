#pragma once

// The sum of what splits of the depth gave, in their order whichever was done first, so that the
// result has the same bits each time. A thread has four neighbours of a row.
//
// Bound: bytes, 4 (splits) of each element read and the element written.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/output_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kSumThreads = 256;

inline __global__ void __launch_bounds__(kSumThreads)
    sumSplits(const __grid_constant__ SumSplits x) {
  const int32_t fours = (x.out.columns + 3) / 4;
  const int64_t count = int64_t(x.out.batch) * x.out.rows * fours;
  for (int64_t i = firstElement(); i < count; i += elementStep()) {
    const auto product = int32_t(i / fours / x.out.rows), row = int32_t(i / fours % x.out.rows),
               column = int32_t(i % fours) * 4;
    float sums[4] = {0, 0, 0, 0};
    const float* from = x.partial + product * x.batchStride + row * x.stride + column;
    for (int32_t split = 0; split < x.splits; ++split, from += x.splitStride) {
      const float4 four = *reinterpret_cast<const float4*>(from);
      sums[0] += four.x, sums[1] += four.y, sums[2] += four.z, sums[3] += four.w;
    }
    storeFourSums(outputOf(x.out, product, 0), sums, row, column);
  }
}

}  // namespace tutti::parallel::cuda
