#pragma once

// Kernels for tests of the runtime: they add, raise flags and wait for them.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation {

using namespace cuda;

/// data[i] += value.
__global__ inline void addTo(int* data, int count, int value) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] += value;
}

/// data[i] = 2 * data[i] + value: the order of two of them shows.
__global__ inline void doubleAndAdd(int* data, int count, int value) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = 2 * data[i] + value;
}

/// Raises *mine, then waits until *other is raised. Every block counts once.
__global__ inline void meet(uint32_t* mine, const uint32_t* other, uint32_t blocks) {
  if (threadIdx.x != 0) return;
  ptx::redAddReleaseSys(mine, 1u);
  while (ptx::ldAcquireSys(other) < blocks) spinHint();
}

/// Waits until *flag is at least `value`.
__global__ inline void awaitFlag(const uint32_t* flag, uint32_t value) {
  if (threadIdx.x != 0) return;
  while (ptx::ldAcquireSys(flag) < value) spinHint();
}

__global__ inline void raiseFlag(uint32_t* flag, uint32_t value) {
  if (threadIdx.x == 0) ptx::stReleaseSys(flag, value);
}

/// The sums of all devices' floats behind a multicast address.
__global__ inline void sumOverDevices(const float4* multicast, float4* out) {
  out[threadIdx.x] = ptx::multimemLdReduceAddF32(multicast + threadIdx.x);
}

}  // namespace tutti::emulation
