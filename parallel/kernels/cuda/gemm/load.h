#pragma once

// Loading kernels of more shared memory than a block has without asking. Included by .cu files.

#include <tutti/cuda/launch.h>

#include "parallel/kernels/cuda/gemm/arguments.h"

namespace tutti::parallel::cuda {

/// Of the current device: 90 for 9.0.
inline cudaError_t capabilityOfDevice(int* capability) {
  int device = 0, major = 0, minor = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  *capability = 10 * major + minor;
  return error;
}

/// Loads a kernel on the current device and lets it have so much dynamic shared memory.
template <class Arguments>
cudaError_t loadLarge(void (*kernel)(Arguments), size_t sharedBytes) {
  const void* const address = ::tutti::cuda::addressOf(kernel);
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, address);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(sharedBytes));
}

}  // namespace tutti::parallel::cuda
