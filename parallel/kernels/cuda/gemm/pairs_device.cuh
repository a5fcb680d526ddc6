#pragma once

// From a warp's sums to c of float32 without an epilogue (OutputWay::Pairs): weight gradients,
// which are added to, and partial sums. Sums go from registers to c two neighbours at a time,
// without shared memory: four lanes have the 32 bytes of a sector, which is what memory counts in.
// Of 16 rows by 64 columns what c has is read before any of it is added to.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/output_device.cuh"

namespace tutti::parallel::cuda {

/// All sums of a warp, as storeAny() has them.
template <int kRowStep, int kBlocks, int kCount>
TUTTI_DEVICE void storePairs(const GemmOutput& out, const float (&sums)[kBlocks][kCount],
                             int32_t row, int32_t column) {
  constexpr int kSums = kCount < 32 ? kCount : 32, kPairs = kSums / 2;  // at a time
  const int lane = int(threadIdx.x) % 32;
  const int32_t firstRow = row + lane / 4, firstColumn = column + lane % 4 * 2;
  auto* const c = static_cast<float*>(out.c.elements.data) + firstRow * out.c.stride + firstColumn;
  const int64_t eightRows = 8 * out.c.stride;
  const int32_t rows = out.rows - firstRow, columns = out.columns - firstColumn;
#pragma unroll
  for (int first = 0; first < kBlocks * kCount; first += kSums) {
    const int block = first / kCount, place = first % kCount;
    // Of pair i the row, in eights from the first on, and the column.
    const auto eightOf = [&](int i) { return block * kRowStep / 8 + i % 2; };
    const auto columnOf = [&](int i) { return place * 2 + i / 2 * 8; };
    const auto isThere = [&](int i) { return rows > eightOf(i) * 8 && columns > columnOf(i); };
    const auto at = [&](int i) {
      return reinterpret_cast<float2*>(c + eightOf(i) * eightRows + columnOf(i));
    };
    float2 pairs[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      pairs[i] = make_float2(sums[block][place + 2 * i], sums[block][place + 2 * i + 1]);
    if (out.accumulate != 0) {
      float2 before[kPairs];
#pragma unroll
      for (int i = 0; i < kPairs; ++i) before[i] = isThere(i) ? *at(i) : make_float2(0, 0);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) pairs[i].x += before[i].x, pairs[i].y += before[i].y;
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      if (isThere(i)) *at(i) = pairs[i];
  }
}

}  // namespace tutti::parallel::cuda
