#pragma once

/// \file
/// The header of device code. Device code (*_device.cuh) includes only this header and ptx.cuh. Two
/// compilers compile each kernel: nvcc for a GPU, and g++ for the emulation of tests/emulation. In
/// the emulation every CUDA thread is a fiber.
///
/// Under nvcc this header adds a few names to CUDA C++. Under g++ it includes device_words.cuh,
/// which declares the names of CUDA C++ itself. tests/emulation defines them, so no emulation code
/// ships.
///
/// Kernels follow these rules, so that both compilers work:
///
/// - Declare static shared memory as TUTTI_SHARED(float, tile, [32][33]). Get dynamic shared memory
///   from dynamicShared<T>().
/// - Read and write flags in memory with the functions of ptx.cuh. Call spinHint() in every loop
///   that waits for a flag.
/// - Use no inline assembly, no cooperative_groups, no __CUDA_ARCH__, and no __device__ variables.
/// - Launch kernels with launch.h.

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#include <cooperative_groups.h>
#include <cuda_runtime.h>

/// Declares a device function that is always inlined.
#define TUTTI_DEVICE __device__ __forceinline__

/// The place that a device function is called from. In the emulation it is a last parameter, and
/// reports name it; under nvcc it is nothing. Use TUTTI_ONLY_SITE if there is no other parameter.
/// TUTTI_HERE and TUTTI_ONLY_HERE pass the place on.
#define TUTTI_SITE
#define TUTTI_ONLY_SITE
#define TUTTI_HERE
#define TUTTI_ONLY_HERE

/// Declares a variable in static shared memory: TUTTI_SHARED(float, sums, [32]);
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

/// A barrier of all threads of a cooperative launch. After it, all threads see the writes that came
/// before it.
TUTTI_DEVICE void gridSync(TUTTI_ONLY_SITE) {
#ifdef __CUDACC__
  cooperative_groups::this_grid().sync();
#else
  emulated::gridSync(site);
#endif
}

/// Lets other threads run. Call it in every loop that waits for another thread, block or device.
TUTTI_DEVICE void spinHint(TUTTI_ONLY_SITE) {
#ifndef __CUDACC__
  emulated::spinHint(site);
#endif
}

}  // namespace tutti::cuda
