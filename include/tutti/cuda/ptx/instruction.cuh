#pragma once

// How the functions of ptx.cuh are written: a signature, then TUTTI_ASM(...) for an instruction
// without a result, or TUTTI_ASM_TO(type, ...) for one that writes operand %0, `result`. Under nvcc
// they are bodies; elsewhere they are nothing, and what stands before them is a declaration.

#include <tutti/cuda/device.cuh>

#ifdef __CUDACC__
#define TUTTI_PTX __device__ __forceinline__
#define TUTTI_ASM(...) \
  { asm volatile(__VA_ARGS__); }
#define TUTTI_ASM_TO(type, ...) \
  {                             \
    type result;                \
    asm volatile(__VA_ARGS__);  \
    return result;              \
  }
#else
#define TUTTI_PTX
#define TUTTI_ASM(...)
#define TUTTI_ASM_TO(type, ...)
#endif

namespace tutti::cuda::ptx {

/// What shared memory's instructions take: the address of `pointer` in the block's shared memory.
#ifdef __CUDACC__
TUTTI_DEVICE uint32_t sharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
#else
uint32_t sharedAddress(const void* pointer);
#endif

}  // namespace tutti::cuda::ptx
