// Memory of GPUs, and of the host for them.

#include <cuda_runtime_api.h>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "src/device/cuda.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/guards.h"
#include "src/device/cuda/library_stream.h"

namespace tutti::device {
namespace {

/// Of a Memory: gives it back, except in a forked child and when CUDA ends before it.
template <class Release>
std::shared_ptr<void> ownerOf(void* data, int device, Release release) {
  return std::shared_ptr<void>(data, [device, release, guard = base::ProcessGuard()](void* memory) {
    if (guard.inForkedChild()) return;
    try {
      const OnDevice here(device);
      const OutsideCapture relaxed;
      const cudaError_t error = release(memory);
      if (error != cudaSuccess && error != cudaErrorCudartUnloading)
        base::log(LogLevel::Error, "memory of ", toString(Device{DeviceKind::Cuda, device}),
                  " was not given back: ", describe(error));
    } catch (const std::exception& e) {
      base::log(LogLevel::Error, "memory was not given back: ", e.what());
    }
  });
}

void requireAllocated(const char* call, cudaError_t error, int device, size_t bytes) {
  if (error == cudaSuccess) return;
  std::string context = base::message(bytes, " bytes were asked for");
  size_t free = 0, all = 0;
  if (error == cudaErrorMemoryAllocation && cudaMemGetInfo(&free, &all) == cudaSuccess)
    context += base::message(", and ", toString(Device{DeviceKind::Cuda, device}), " has ", free,
                             " of its ", all, " free");
  failCuda(call, error, context);
}

}  // namespace

int currentCudaDevice() {
  int device = 0;
  TUTTI_CUDA(cudaGetDevice(&device));
  return device;
}

Memory allocateCuda(int device, size_t bytes) {
  if (bytes == 0) return {};
  const OnDevice here(device);
  const OutsideCapture relaxed;
  void* data = nullptr;
  requireAllocated("cudaMalloc", cudaMalloc(&data, bytes), device, bytes);
  return Memory(data, bytes, ownerOf(data, device, [](void* memory) { return cudaFree(memory); }));
}

// Copies of pageable memory may return before they have arrived, and the default stream's do not
// wait for streams that do not wait for it: so one of the library's own, and a wait.
void copyMemory(void* to, const void* from, size_t bytes) {
  if (cudaSupport().devices == 0) base::fail(ErrorCode::Unsupported, cudaSupport().missing);
  const OutsideCapture relaxed;
  const cudaStream_t stream = sharedStream(StreamPurpose::Copies, currentCudaDevice());
  TUTTI_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
  TUTTI_CUDA(cudaStreamSynchronize(stream));
}

void copyAside(int device, void* to, const void* from, size_t bytes) {
  const OnDevice here(device);
  const OutsideCapture relaxed;
  const cudaStream_t stream = sharedStream(StreamPurpose::SetUp, device);
  TUTTI_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
  TUTTI_CUDA(cudaStreamSynchronize(stream));
}

void copyOn(StreamRef stream, void* to, const void* from, size_t bytes) {
  const OnDevice here(stream.device().index);
  TUTTI_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.cuda()));
}

Memory allocateCudaPinned(size_t bytes) {
  if (bytes == 0) return {};
  if (cudaSupport().devices == 0) base::fail(ErrorCode::Unsupported, cudaSupport().missing);
  const int device = currentCudaDevice();
  const OutsideCapture relaxed;
  void* data = nullptr;
  requireAllocated("cudaHostAlloc",
                   cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped), device,
                   bytes);
  return Memory(data, bytes,
                ownerOf(data, device, [](void* memory) { return cudaFreeHost(memory); }));
}

}  // namespace tutti::device
