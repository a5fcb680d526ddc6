#pragma once

// The device header: with ptx.cuh the only one that device code (*_device.cuh) includes. One source
// of a kernel is compiled by nvcc for a GPU and by g++ for the emulation of tests/emulation, where
// every CUDA thread is a fiber. Under nvcc this header adds a few words to CUDA C++; elsewhere
// device_words.cuh declares those of CUDA C++ itself, and what they do is defined in
// tests/emulation, so that nothing of it ships.
//
// What kernels keep to, so that both work:
// - static shared memory is TUTTI_SHARED(float, tile, [32][33]); dynamic is dynamicShared<T>();
// - flags in memory are read and written by the functions of ptx.cuh, and every loop that waits for
//   one calls spinHint();
// - no inline assembly, no cooperative_groups, no __CUDA_ARCH__, no __device__ variables;
// - kernels are launched by launch.h.

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#include <cooperative_groups.h>
#include <cuda_runtime.h>

/// A function of device code that is always inlined.
#define TUTTI_DEVICE __device__ __forceinline__

/// Where a device function was called from: a last parameter in the emulation, whose reports name
/// it, and nothing under nvcc. TUTTI_ONLY_SITE where there is no other parameter; TUTTI_HERE and
/// TUTTI_ONLY_HERE pass it on.
#define TUTTI_SITE
#define TUTTI_ONLY_SITE
#define TUTTI_HERE
#define TUTTI_ONLY_HERE

/// A variable in static shared memory: TUTTI_SHARED(float, sums, [32]);
#define TUTTI_SHARED(type, name, ...) __shared__ type name __VA_ARGS__
#else
#include <tutti/cuda/device_words.cuh>
#endif

namespace tutti::cuda {

/// The block's dynamic shared memory, aligned to 1024 bytes.
template <class T>
TUTTI_DEVICE T* dynamicShared() {
#ifdef __CUDACC__
  extern __shared__ __align__(1024) unsigned char tuttiDynamicShared[];
  return reinterpret_cast<T*>(tuttiDynamicShared);
#else
  return static_cast<T*>(emulated::dynamicShared());
#endif
}

/// All threads of a cooperative launch meet; what they wrote before is seen by all after it.
TUTTI_DEVICE void gridSync(TUTTI_ONLY_SITE) {
#ifdef __CUDACC__
  cooperative_groups::this_grid().sync();
#else
  emulated::gridSync(site);
#endif
}

/// In every loop that waits for another thread, block or device: lets others run meanwhile.
TUTTI_DEVICE void spinHint(TUTTI_ONLY_SITE) {
#ifndef __CUDACC__
  emulated::spinHint(site);
#endif
}

}  // namespace tutti::cuda
