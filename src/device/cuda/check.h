#pragma once

// A call of CUDA that fails becomes an Error that says which call, on which device, and what CUDA
// says of it.

#include <cuda_runtime_api.h>

#include <string>

namespace tutti::device {

/// Throws OutOfMemory, Unsupported (no GPU, or the GPU cannot), InvalidUsage (what a capture or a
/// fork does not allow) or Cuda. Takes the error off what cudaGetLastError() returns, so that
/// nobody else meets it.
[[noreturn]] void failCuda(const char* call, cudaError_t error, const std::string& context = {});
/// Whether all that is on the stream so far, or was when the event was recorded, has ended. What
/// CUDA answers where it has not is taken off what cudaGetLastError() returns.
bool hasEnded(cudaStream_t stream);
bool hasEnded(cudaEvent_t event);
/// "cudaErrorNoDevice (no CUDA-capable device is detected)".
std::string describe(cudaError_t error);

}  // namespace tutti::device

/// Of functions of the runtime, and of the driver, whose errors have the same numbers.
#define TUTTI_CUDA(call)                                 \
  do {                                                   \
    const auto result_ = static_cast<cudaError_t>(call); \
    if (result_ != cudaSuccess) [[unlikely]]             \
      ::tutti::device::failCuda(#call, result_);         \
  } while (false)
