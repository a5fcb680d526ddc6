#pragma once

// Kernels of a few lines: RMSNorm of rows, and sums over all blocks of a cooperative grid.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::kernels {

using namespace cuda;

enum class RowsBug {
  None,
  NoBarrierAfterSums,  // partial sums are read before all warps have written them
  OneTooMany,          // an element beyond the end is written
  OneTooManyShared,    // ... of shared memory
  DivergentBarrier,    // the barrier is in both arms of a branch
  LaneLeftOut,         // a shuffle names lanes that do not come
  NoGridSync,          // other blocks' sums are read before they are there
  FenceForgotten,      // the last block reads others' sums without having seen them
  MisalignedVector
};

TUTTI_DEVICE float warpSum(float value, unsigned mask) {
  for (int bits = 16; bits > 0; bits /= 2) value += __shfl_xor_sync(mask, value, bits);
  return value;
}

/// The sum over the block, in every thread.
template <RowsBug kBug>
TUTTI_DEVICE float blockSum(float value) {
  TUTTI_SHARED(float, sums, [32]);
  const unsigned warp = threadIdx.x / 32;
  if (kBug == RowsBug::LaneLeftOut) {
    if (threadIdx.x % 32 != 31) value = warpSum(value, ~0u);
  } else {
    value = warpSum(value, ~0u);
  }
  if (threadIdx.x % 32 == 0) sums[warp] = value;
  if (kBug == RowsBug::OneTooManyShared && threadIdx.x == 0) sums[32 + blockIdx.x % 2] = value;
  if (kBug == RowsBug::DivergentBarrier) {
    if (warp % 2 == 0)
      __syncthreads();
    else
      __syncthreads();
  } else if (kBug != RowsBug::NoBarrierAfterSums) {
    __syncthreads();
  }
  float sum = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i) sum += sums[i];
  return sum;
}

/// y[row] = x[row] / sqrt(mean(x[row]^2) + epsilon) * weight; a block per row.
template <RowsBug kBug>
__global__ void rmsNorm(float* y, const float* x, const float* weight, int columns, float epsilon) {
  const float* const row = x + size_t(blockIdx.x) * columns;
  float squares = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += row[i] * row[i];
  const float scale = rsqrtf(blockSum<kBug>(squares) / float(columns) + epsilon);
  const int end = kBug == RowsBug::OneTooMany ? columns + 1 : columns;
  for (int i = threadIdx.x; i < end; i += blockDim.x)
    y[size_t(blockIdx.x) * columns + i] = row[i] * scale * weight[i];
}

/// Cooperative: out[block] = the sum of all `count` values, by sums of blocks in `partial`.
template <RowsBug kBug>
__global__ void gridSum(float* out, float* partial, const float* values, int count) {
  float sum = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < unsigned(count);
       i += gridDim.x * blockDim.x)
    sum += values[i];
  sum = blockSum<RowsBug::None>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
  if (kBug != RowsBug::NoGridSync) gridSync();
  float all = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) all += partial[i];
  if (threadIdx.x == 0) out[blockIdx.x] = all;
}

/// The block that comes last adds all blocks' sums into out[0]: threads fence, then count.
template <RowsBug kBug>
__global__ void lastBlockSum(float* out, float* partial, unsigned* arrived, const float* values,
                             int count) {
  TUTTI_SHARED(bool, isLast, [1]);
  const auto* const from =
      reinterpret_cast<const float4*>(kBug == RowsBug::MisalignedVector ? values + 1 : values);
  float sum = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < unsigned(count) / 4;
       i += gridDim.x * blockDim.x) {
    const uint4 bits = ptx::ldNcNoAllocate(reinterpret_cast<const uint4*>(from + i));
    sum += __uint_as_float(bits.x) + __uint_as_float(bits.y) + __uint_as_float(bits.z) +
           __uint_as_float(bits.w);
  }
  sum = blockSum<RowsBug::None>(sum);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    if (kBug != RowsBug::FenceForgotten) __threadfence();
    isLast[0] = atomicAdd(arrived, 1u) == gridDim.x - 1;
    if (kBug != RowsBug::FenceForgotten) __threadfence();
  }
  __syncthreads();
  if (!isLast[0] || threadIdx.x != 0) return;
  float all = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) all += partial[i];
  out[0] = all;
}

}  // namespace tutti::emulation::kernels
