#pragma once

// A kernel for each instruction on matrices that a warp holds, and for cp.async, conversions and
// powers of two.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::conformance {

using namespace cuda;

constexpr int kMatrixPitch = 16;  // bytes of a row of an 8x8 matrix

/// out[kCount lane + i] = register i, of matrices whose 8 rows of 8 elements lie one after the
/// other.
template <int kCount, bool kTrans>
__global__ void loadMatrices(uint32_t* out, const uint4* rows) {
  TUTTI_SHARED(uint4, held, [32]);
  held[threadIdx.x] = rows[threadIdx.x];
  __syncwarp();
  uint32_t registers[kCount];
  const uint32_t row = ptx::sharedAddress(held + threadIdx.x);
  if (kTrans)
    ptx::ldmatrixTrans(registers, row);
  else
    ptx::ldmatrix(registers, row);
  for (int i = 0; i < kCount; ++i) out[kCount * threadIdx.x + i] = registers[i];
}

/// The other way: out[8 matrix + row]. sm_90.
template <int kCount, bool kTrans>
__global__ void storeMatrices(uint4* out, const uint32_t* registers) {
  TUTTI_SHARED(uint4, held, [32]);
  uint32_t mine[kCount];
  for (int i = 0; i < kCount; ++i) mine[i] = registers[kCount * threadIdx.x + i];
  const uint32_t row = ptx::sharedAddress(held + threadIdx.x);
  if (kTrans)
    ptx::stmatrixTrans(row, mine);
  else
    ptx::stmatrix(row, mine);
  __syncwarp();
  if (threadIdx.x < 8 * kCount) out[threadIdx.x] = held[threadIdx.x];
}

enum class Mma { Bf16, F16, Tf32 };

/// d of each lane from a, b (registers, lane by lane) and what d was.
template <Mma kMma>
__global__ void multiplyFloats(float* out, const uint32_t* a, const uint32_t* b, const float* d) {
  uint32_t fromA[4], fromB[2];
  float sums[4];
  for (int i = 0; i < 4; ++i) fromA[i] = a[4 * threadIdx.x + i];
  for (int i = 0; i < 2; ++i) fromB[i] = b[2 * threadIdx.x + i];
  for (int i = 0; i < 4; ++i) sums[i] = d[4 * threadIdx.x + i];
  if constexpr (kMma == Mma::Bf16)
    ptx::mmaBf16(sums, fromA, fromB);
  else if constexpr (kMma == Mma::F16)
    ptx::mmaF16(sums, fromA, fromB);
  else
    ptx::mmaTf32(sums, fromA, fromB);
  for (int i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = sums[i];
}

__global__ inline void multiplyHalves(uint32_t* out, const uint32_t* a, const uint32_t* b,
                                      const uint32_t* d) {
  uint32_t fromA[4], fromB[2], sums[2];
  for (int i = 0; i < 4; ++i) fromA[i] = a[4 * threadIdx.x + i];
  for (int i = 0; i < 2; ++i) fromB[i] = b[2 * threadIdx.x + i];
  for (int i = 0; i < 2; ++i) sums[i] = d[2 * threadIdx.x + i];
  ptx::mmaF16ToF16(sums, fromA, fromB);
  for (int i = 0; i < 2; ++i) out[2 * threadIdx.x + i] = sums[i];
}

/// Thread i copies kBytes bytes of which it reads i % (kBytes + 1), in three groups.
template <int kBytes>
__global__ void copies(char* out, const char* in) {
  TUTTI_SHARED(uint4, held, [3 * 64]);
  char* const mine = reinterpret_cast<char*>(held) + kBytes * threadIdx.x;
  for (int group = 0; group < 3; ++group) {
    const unsigned at = kBytes * (group * blockDim.x + threadIdx.x);
    ptx::cpAsync<kBytes>(ptx::sharedAddress(mine + group * kBytes * blockDim.x), in + at,
                         (threadIdx.x + group) % (kBytes + 1));
    ptx::cpAsyncCommit();
  }
  ptx::cpAsyncWait<1>();
  for (int group = 0; group < 3; ++group) {
    if (group == 2) ptx::cpAsyncWait<0>();
    for (int i = 0; i < kBytes; ++i)
      out[kBytes * (group * blockDim.x + threadIdx.x) + i] = mine[group * kBytes * blockDim.x + i];
  }
}

/// out[3 i ...]: two floats as bf16, as f16, and the first as tf32.
__global__ inline void convert(uint32_t* out, const float* in) {
  const unsigned i = threadIdx.x;
  out[3 * i] = ptx::packBf16(in[2 * i], in[2 * i + 1]);
  out[3 * i + 1] = ptx::packF16(in[2 * i], in[2 * i + 1]);
  out[3 * i + 2] = ptx::roundTf32(in[2 * i]);
}

/// All halves, by 65536 threads.
__global__ inline void widenHalves(float* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = ptx::widenF16(uint16_t(i));
}

__global__ inline void powersOfTwo(float* out, const float* in) {
  out[threadIdx.x] = ptx::exp2Approximate(in[threadIdx.x]);
}

}  // namespace tutti::emulation::conformance
