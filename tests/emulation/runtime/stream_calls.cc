// The runtime's functions about streams.

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"

using namespace tutti::emulation;

namespace {

cudaError_t create(cudaStream_t* to, unsigned flags, int priority) {
  return call([&] {
    if (to == nullptr || (flags & ~unsigned(cudaStreamNonBlocking)) != 0)
      return cudaErrorInvalidValue;
    if (deviceCount() == 0) return cudaErrorNoDevice;
    *to = openStream(currentDevice(), flags, priority);
    return cudaSuccess;
  });
}

template <class Value, class Get>
cudaError_t ask(cudaStream_t handle, Value* to, Get get, bool mayCapture = true) {
  return call([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    cudaStream_t stream = nullptr;
    if (const cudaError_t error = findStream(handle, stream); error != cudaSuccess) return error;
    if (!mayCapture && stream->capture != nullptr) return refuseWaiting(stream);
    *to = get(*stream);
    return cudaSuccess;
  });
}
/// The same of what CUDA does not tell of a stream that is captured: to ask ends the capture.
template <class Value, class Get>
cudaError_t askOutsideCapture(cudaStream_t handle, Value* to, Get get) {
  return ask(handle, to, get, false);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* to) {
  noteAllocatingCall();
  return create(to, cudaStreamDefault, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* to, unsigned flags) {
  noteAllocatingCall();
  return create(to, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* to, unsigned flags, int priority) {
  noteAllocatingCall();
  return create(to, flags, priority);
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* to) {
  return ask(handle, to, [](const CUstream_st& stream) { return stream.priority; });
}
cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* to) {
  return ask(handle, to, [](const CUstream_st& stream) { return stream.flags; });
}
cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* to) {
  return askOutsideCapture(handle, to, [](const CUstream_st& stream) { return stream.id; });
}
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* to) {
  return askOutsideCapture(handle, to, [](const CUstream_st& stream) { return stream.device; });
}

/// Work that is under way is finished; the handle is no more.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  noteAllocatingCall();
  return unfailingCall([&] {
    cudaStream_t stream = nullptr;
    if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
      return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = findStream(handle, stream); error != cudaSuccess) return error;
    leaveCapture(stream);
    releaseStream(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  std::vector<WorkPointer> works;
  int device = 0;
  const cudaError_t error = call([&] {
    cudaStream_t stream = nullptr;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    if (const cudaError_t bad = refuseWaiting(stream); bad != cudaSuccess) return bad;
    device = stream->device;
    if (stream->last != nullptr) works.push_back(stream->last);
    if (stream->isLegacy) addImplicitWaits(stream, works);
    return cudaSuccess;
  });
  if (error != cudaSuccess) return error;
  for (const WorkPointer& work : works) wait(*work);
  return remember(faultOf(device));
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call([&] {
    cudaStream_t stream = nullptr;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    if (const cudaError_t bad = refuseWaiting(stream); bad != cudaSuccess) return bad;
    std::vector<WorkPointer> works;
    if (stream->last != nullptr) works.push_back(stream->last);
    if (stream->isLegacy) addImplicitWaits(stream, works);
    for (const WorkPointer& work : works)
      if (!isDone(work)) return cudaErrorNotReady;
    for (const WorkPointer& work : works) acquire(&work->end);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  std::vector<WorkPointer> works;
  const cudaError_t error = call([&] {
    if (const cudaError_t bad = refuseDeviceWait(currentDevice()); bad != cudaSuccess) return bad;
    works = lastOf(currentDevice());
    return cudaSuccess;
  });
  if (error != cudaSuccess) return error;
  for (const WorkPointer& work : works) wait(*work);
  return remember(faultOf(currentDevice()));
}

cudaError_t cudaStreamSetAttribute(cudaStream_t handle, cudaStreamAttrID which,
                                   const cudaStreamAttrValue* value) {
  return call([&] {
    cudaStream_t stream = nullptr;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    if (value == nullptr) return cudaErrorInvalidValue;
    switch (which) {
      case cudaLaunchAttributePriority: stream->priority = value->priority; return cudaSuccess;
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeSynchronizationPolicy:
      case cudaLaunchAttributeMemSyncDomainMap:
      case cudaLaunchAttributeMemSyncDomain: return cudaSuccess;
      default: return cudaErrorInvalidValue;
    }
  });
}

}  // extern "C"
