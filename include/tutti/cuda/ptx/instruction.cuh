#pragma once

/// \file
/// Macros that define the functions of ptx.cuh. Write the signature, then TUTTI_ASM(...) for an
/// instruction without a result, or TUTTI_ASM_TO(type, ...) for one that writes operand %0,
/// `result`. Under nvcc the macros are function bodies. Otherwise they are empty, and the signature
/// before them is a declaration.

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

/// The 32-bit address of `pointer` in the block's shared memory, as instructions take it.
#ifdef __CUDACC__
TUTTI_DEVICE uint32_t sharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
#else
uint32_t sharedAddress(const void* pointer);
#endif

}  // namespace tutti::cuda::ptx
