#pragma once

// A kernel for each form of wgmma: operands are given as they lie in shared memory.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::conformance {

using namespace cuda;

enum class Wg { Bf16, F16, Tf32 };

/// The strides of a descriptor.
struct Layout {
  uint32_t leading, stride;
  int swizzle;  // ptx::Swizzle
};

struct WgmmaOperands {
  const uint4 *a, *b;  // images of shared memory, of so many chunks of 16 bytes
  uint32_t aChunks, bChunks;
  Layout aLayout, bLayout;
  const uint32_t* aRegisters;  // four for each thread, instead of a
  const float* d;              // kColumns / 2 for each thread
};

TUTTI_DEVICE uint64_t descriptorOf(const uint4* at, Layout layout) {
  return ptx::wgmmaDescriptor(ptx::sharedAddress(at), layout.leading, layout.stride,
                              static_cast<ptx::Swizzle>(layout.swizzle));
}

template <Wg kType, ptx::Major kA, ptx::Major kB, class A, int kRegisters>
TUTTI_DEVICE void multiply(float (&d)[kRegisters], const A& a, uint64_t b, int accumulate) {
  constexpr bool kInRegisters = !std::is_same_v<A, uint64_t>;
  if constexpr (kType == Wg::Tf32)
    ptx::wgmmaTf32(d, a, b, accumulate);
  else if constexpr (kType == Wg::Bf16 && kInRegisters)
    ptx::wgmmaBf16<kB>(d, a, b, accumulate);
  else if constexpr (kType == Wg::F16 && kInRegisters)
    ptx::wgmmaF16<kB>(d, a, b, accumulate);
  else if constexpr (kType == Wg::Bf16)
    ptx::wgmmaBf16<kA, kB>(d, a, b, accumulate);
  else
    ptx::wgmmaF16<kA, kB>(d, a, b, accumulate);
}

/// out: d + 2 a b where `accumulates`, else 2 a b; thread by thread.
template <Wg kType, int kColumns, ptx::Major kA, ptx::Major kB, bool kInRegisters>
__global__ void __launch_bounds__(128) wgmmas(float* out, WgmmaOperands operands, int accumulates) {
  uint4* const a = dynamicShared<uint4>();
  uint4* const b = a + 1024;
  for (uint32_t i = threadIdx.x; i < operands.aChunks; i += 128) a[i] = operands.a[i];
  for (uint32_t i = threadIdx.x; i < operands.bChunks; i += 128) b[i] = operands.b[i];
  ptx::fenceProxyAsyncShared();
  __syncthreads();
  const uint64_t bDescriptor = descriptorOf(b, operands.bLayout);
  float d[kColumns / 2];
  for (int i = 0; i < kColumns / 2; ++i) d[i] = operands.d[threadIdx.x * (kColumns / 2) + i];
  const auto issue = [&](const auto& from) {
    ptx::wgmmaFence();
    multiply<kType, kA, kB>(d, from, bDescriptor, accumulates);
    multiply<kType, kA, kB>(d, from, bDescriptor, 1);
    ptx::wgmmaCommit();
    ptx::wgmmaWait<0>(d);
  };
  if constexpr (kInRegisters) {
    uint32_t registers[4];
    for (int i = 0; i < 4; ++i) registers[i] = operands.aRegisters[4 * threadIdx.x + i];
    issue(registers);
  } else {
    issue(descriptorOf(a, operands.aLayout));
  }
  for (int i = 0; i < kColumns / 2; ++i) out[threadIdx.x * (kColumns / 2) + i] = d[i];
}

}  // namespace tutti::emulation::conformance
