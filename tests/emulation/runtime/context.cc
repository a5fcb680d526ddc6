// Contexts, and what divides a device into several, which emulated ones do not support.

#include "tests/emulation/runtime/context.h"

#include <cuda_runtime_api.h>

#include <vector>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/stream.h"

namespace tutti::emulation {
namespace {

constexpr int kNone = -1;
/// What was current when another context was pushed: devices, or none.
thread_local std::vector<int> below;

int currentContext() { return hasContext() ? currentDevice() : kNone; }

void makeCurrent(int device) {
  if (device == kNone)
    detachContext();
  else
    setCurrentDevice(device);
}

void pop() {
  const int before = below.empty() ? kNone : below.back();
  if (!below.empty()) below.pop_back();
  makeCurrent(before);
}

template <class To>
CUresult unsupported(const To* to) {
  return driverCall([&] { return to == nullptr ? cudaErrorInvalidValue : cudaErrorNotSupported; });
}

}  // namespace

CUcontext contextOf(int device) { return reinterpret_cast<CUcontext>(&deviceAt(device)); }
int deviceOf(CUcontext context) {
  for (int i = 0; i < deviceCount(); ++i)
    if (contextOf(i) == context) return i;
  return -1;
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* to, CUdevice device) {
  return driverCall([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    *to = contextOf(device);
    deviceAt(device).isActive = true;
    return cudaSuccess;
  });
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return isDevice(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* isActive) {
  return driverCall([&] {
    if (flags == nullptr || isActive == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    *flags = deviceAt(device).flags;
    *isActive = deviceAt(device).isActive;
    return cudaSuccess;
  });
}

CUresult cuCtxGetCurrent(CUcontext* to) {
  if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *to = hasContext() ? contextOf(currentDevice()) : nullptr;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) return pop(), CUDA_SUCCESS;
  const int device = deviceOf(context);
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  makeCurrent(device);
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  const int device = deviceOf(context);
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  below.push_back(currentContext());
  makeCurrent(device);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext* to) {
  if (!hasContext()) return CUDA_ERROR_INVALID_CONTEXT;
  if (to != nullptr) *to = contextOf(currentDevice());
  pop();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* to) {
  if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!hasContext()) return CUDA_ERROR_INVALID_CONTEXT;
  *to = currentDevice();
  return CUDA_SUCCESS;
}

// Also of a stream that is captured.
CUresult cuStreamGetCtx(CUstream handle, CUcontext* to) {
  return driverCall([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    cudaStream_t stream = nullptr;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    *to = contextOf(stream->device);
    return cudaSuccess;
  });
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* to, CUdevResourceType) {
  return isDevice(device) ? unsupported(to) : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDevSmResourceSplitByCount(CUdevResource*, unsigned* count, const CUdevResource*,
                                     CUdevResource*, unsigned, unsigned) {
  return unsupported(count);
}
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* to, CUdevResource*, unsigned) {
  return unsupported(to);
}
CUresult cuGreenCtxCreate(CUgreenCtx* to, CUdevResourceDesc, CUdevice device, unsigned) {
  return isDevice(device) ? unsupported(to) : CUDA_ERROR_INVALID_DEVICE;
}
// There is no green context that these could be of.
CUresult cuGreenCtxDestroy(CUgreenCtx) { return CUDA_ERROR_INVALID_CONTEXT; }
CUresult cuCtxFromGreenCtx(CUcontext* to, CUgreenCtx) {
  return to == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuGreenCtxStreamCreate(CUstream* to, CUgreenCtx, unsigned, int) {
  return to == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
}

}  // extern "C"
