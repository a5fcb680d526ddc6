#pragma once

// How the .cu files load a kernel ahead, on the current device. Included by these only.

#include <tutti/cuda/launch.h>

namespace tutti::parallel::cuda {

template <class Arguments>
cudaError_t loadOne(void (*kernel)(Arguments)) {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, ::tutti::cuda::addressOf(kernel));
}

/// Lets it have so much dynamic shared memory, too: more than a block has without asking.
template <class Arguments>
cudaError_t loadLarge(void (*kernel)(Arguments), size_t sharedBytes) {
  const cudaError_t error = loadOne(kernel);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(::tutti::cuda::addressOf(kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(sharedBytes));
}

/// Whether the current device is of compute capability 9.0.
inline cudaError_t isHopperHere(bool* isHopper) {
  int device = 0, major = 0, minor = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  *isHopper = major == 9 && minor == 0;
  return error;
}

}  // namespace tutti::parallel::cuda
