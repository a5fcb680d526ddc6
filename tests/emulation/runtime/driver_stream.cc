// The driver's functions for streams, events, memory and copies. Handles, flags and errors are the
// runtime's, so each does what the runtime's function does.

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace {

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

/// Of a call that has one address to write, without which CUDA refuses it.
CUresult give(CUdeviceptr* to, void* memory, cudaError_t error) {
  if (error == cudaSuccess) *to = reinterpret_cast<CUdeviceptr>(memory);
  return CUresult(error);
}

}  // namespace

extern "C" {

CUresult cuCtxSynchronize() { return CUresult(cudaDeviceSynchronize()); }
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return CUresult(cudaDeviceGetStreamPriorityRange(least, greatest));
}

CUresult cuStreamCreate(CUstream* to, unsigned flags) {
  return CUresult(cudaStreamCreateWithFlags(to, flags));
}
CUresult cuStreamCreateWithPriority(CUstream* to, unsigned flags, int priority) {
  return CUresult(cudaStreamCreateWithPriority(to, flags, priority));
}
CUresult cuStreamDestroy_v2(CUstream stream) { return CUresult(cudaStreamDestroy(stream)); }
CUresult cuStreamSynchronize(CUstream stream) { return CUresult(cudaStreamSynchronize(stream)); }
CUresult cuStreamQuery(CUstream stream) { return CUresult(cudaStreamQuery(stream)); }
CUresult cuStreamGetPriority(CUstream stream, int* to) {
  return CUresult(cudaStreamGetPriority(stream, to));
}
CUresult cuStreamGetFlags(CUstream stream, unsigned* to) {
  return CUresult(cudaStreamGetFlags(stream, to));
}
CUresult cuStreamGetId(CUstream stream, unsigned long long* to) {
  return CUresult(cudaStreamGetId(stream, to));
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return CUresult(cudaStreamWaitEvent(stream, event, flags));
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* to) {
  return CUresult(cudaStreamIsCapturing(stream, reinterpret_cast<cudaStreamCaptureStatus*>(to)));
}

CUresult cuEventCreate(CUevent* to, unsigned flags) {
  return CUresult(cudaEventCreateWithFlags(to, flags));
}
CUresult cuEventDestroy_v2(CUevent event) { return CUresult(cudaEventDestroy(event)); }
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return CUresult(cudaEventRecord(event, stream));
}
CUresult cuEventQuery(CUevent event) { return CUresult(cudaEventQuery(event)); }
CUresult cuEventSynchronize(CUevent event) { return CUresult(cudaEventSynchronize(event)); }
CUresult cuEventElapsedTime_v2(float* to, CUevent from, CUevent until) {
  return CUresult(cudaEventElapsedTime(to, from, until));
}

CUresult cuMemGetInfo_v2(size_t* freeBytes, size_t* allBytes) {
  return CUresult(cudaMemGetInfo(freeBytes, allBytes));
}
/// Unlike the runtime, the driver refuses no bytes.
CUresult cuMemAlloc_v2(CUdeviceptr* to, size_t bytes) {
  void* memory = nullptr;
  if (to == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  return give(to, memory, error);
}
CUresult cuMemFree_v2(CUdeviceptr address) { return CUresult(cudaFree(pointer(address))); }
CUresult cuMemAllocAsync(CUdeviceptr* to, size_t bytes, CUstream stream) {
  void* memory = nullptr;
  if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const cudaError_t error = cudaMallocAsync(&memory, bytes, stream);
  return give(to, memory, error);
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return CUresult(cudaFreeAsync(pointer(address), stream));
}
CUresult cuMemHostAlloc(void** to, size_t bytes, unsigned flags) {
  return bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUresult(cudaHostAlloc(to, bytes, flags));
}
CUresult cuMemAllocHost_v2(void** to, size_t bytes) { return cuMemHostAlloc(to, bytes, 0); }
CUresult cuMemFreeHost(void* memory) { return CUresult(cudaFreeHost(memory)); }

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return CUresult(cudaMemcpy(pointer(to), pointer(from), bytes, cudaMemcpyDefault));
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CUresult(cudaMemcpyAsync(pointer(to), pointer(from), bytes, cudaMemcpyDefault, stream));
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return CUresult(cudaMemcpy(pointer(to), from, bytes, cudaMemcpyHostToDevice));
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return CUresult(cudaMemcpy(to, pointer(from), bytes, cudaMemcpyDeviceToHost));
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return CUresult(cudaMemcpyAsync(pointer(to), from, bytes, cudaMemcpyHostToDevice, stream));
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CUresult(cudaMemcpyAsync(to, pointer(from), bytes, cudaMemcpyDeviceToHost, stream));
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CUresult(
      cudaMemcpyAsync(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice, stream));
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return CUresult(cudaMemsetAsync(pointer(to), value, count, stream));
}

}  // extern "C"
