#include "src/device/cuda/check.h"

#include <tutti/device.h>

#include "src/base/check.h"

namespace tutti::device {
namespace {

ErrorCode codeOf(cudaError_t error) {
  if (error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorCapturedEvent)
    return ErrorCode::InvalidUsage;
  switch (error) {
    case cudaErrorMemoryAllocation: return ErrorCode::OutOfMemory;
    case cudaErrorStreamCaptureWrongThread:
    case cudaErrorNotPermitted: return ErrorCode::InvalidUsage;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNotSupported:
    case cudaErrorPeerAccessUnsupported: return ErrorCode::Unsupported;
    default: return ErrorCode::Cuda;
  }
}

bool saysEnded(const char* call, cudaError_t answer) {
  if (answer == cudaSuccess) return true;
  if (answer != cudaErrorNotReady) failCuda(call, answer);
  cudaGetLastError();
  return false;
}

}  // namespace

bool hasEnded(cudaStream_t stream) { return saysEnded("cudaStreamQuery", cudaStreamQuery(stream)); }

bool hasEnded(cudaEvent_t event) { return saysEnded("cudaEventQuery", cudaEventQuery(event)); }

std::string describe(cudaError_t error) {
  return base::message(cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
}

void failCuda(const char* call, cudaError_t error, const std::string& context) {
  int current = -1;
  cudaGetDevice(&current);
  cudaGetLastError();
  base::fail(codeOf(error), call, " failed on ",
             current < 0 ? "no device" : toString(Device{DeviceKind::Cuda, current}), ": ",
             describe(error), context.empty() ? "" : ": ", context);
}

}  // namespace tutti::device
