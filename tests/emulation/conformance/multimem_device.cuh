#pragma once

// Kernels for multimem and fp8 (sm_90).

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::conformance {

using namespace cuda;

/// Thread i reduces chunk i of the replicas behind `all`, in a type, and stores the sum to all.
template <int kType>
__global__ void reduceReplicas(uint4* out, uint4* all) {
  uint4* const mine = all + threadIdx.x;
  if constexpr (kType == 0) {
    const float4 sum = ptx::multimemLdReduceAddF32(reinterpret_cast<float4*>(mine));
    out[threadIdx.x] = make_uint4(__float_as_uint(sum.x), __float_as_uint(sum.y),
                                  __float_as_uint(sum.z), __float_as_uint(sum.w));
    ptx::multimemStF32(reinterpret_cast<float4*>(mine), sum);
  } else if constexpr (kType == 1) {
    out[threadIdx.x] = ptx::multimemLdReduceAddBf16(mine);
    ptx::multimemStBf16(mine, out[threadIdx.x]);
  } else {
    out[threadIdx.x] = ptx::multimemLdReduceAddF16(mine);
  }
}

/// Adds to two words of all replicas.
__global__ inline void addToWords(uint32_t* words) {
  ptx::multimemRedAddRelaxed(words, threadIdx.x);
  ptx::multimemRedAddRelease(words + 1, 3u);
}

/// Adds to four floats of all replicas.
__global__ inline void addToFloats(float4* floats) {
  ptx::multimemRedAddF32(floats, make_float4(1, 2, 3, float(threadIdx.x)));
}

/// out[4 i ...]: two floats as e4m3 and as e5m2, and both turned into halves. sm_89.
__global__ inline void convertFloat8(uint32_t* out, const float* in) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const uint16_t e4m3 = ptx::packE4m3(in[2 * i], in[2 * i + 1]);
  const uint16_t e5m2 = ptx::packE5m2(in[2 * i], in[2 * i + 1]);
  out[4 * i] = e4m3;
  out[4 * i + 1] = e5m2;
  out[4 * i + 2] = ptx::unpackE4m3(e4m3);
  out[4 * i + 3] = ptx::unpackE5m2(e5m2);
}

}  // namespace tutti::emulation::conformance
