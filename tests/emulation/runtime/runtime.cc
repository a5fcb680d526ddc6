// Stands in for the CUDA runtime at link time: what the emulation's own tests call. Memory is the
// process's, a stream runs what is enqueued at once in the calling thread, and there is one device.

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "tests/emulation/emulation.h"
#include "tests/emulation/tensor_map.h"

using namespace tutti::emulation;

namespace {

constexpr int kProcessors = 4;
constexpr size_t kAlignment = 512;

thread_local cudaError_t lastError = cudaSuccess;

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) lastError = error;
  return error;
}

uint64_t volume(dim3 shape) { return uint64_t(shape.x) * shape.y * shape.z; }

cudaError_t fill(const cudaLaunchConfig_t& config, Launch& launch) {
  launch.grid = config.gridDim;
  launch.block = config.blockDim;
  launch.dynamicSharedBytes = config.dynamicSmemBytes;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension)
      launch.cluster = {attribute.val.clusterDim.x, attribute.val.clusterDim.y,
                        attribute.val.clusterDim.z};
    if (attribute.id == cudaLaunchAttributeCooperative)
      launch.cooperative = attribute.val.cooperative != 0;
  }
  const dim3 g = launch.grid, c = launch.cluster;
  if (volume(g) == 0 || volume(launch.block) == 0 || volume(launch.block) > 1024)
    return cudaErrorInvalidConfiguration;
  if (volume(c) > 8 || g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0)
    return cudaErrorInvalidClusterSize;
  if (launch.dynamicSharedBytes > kMaxDynamicSharedBytes) return cudaErrorInvalidValue;
  const uint64_t perProcessor = std::max<uint64_t>(1, 2048 / volume(launch.block));
  launch.residentBlocks = std::max<uint64_t>(kProcessors * perProcessor, volume(c));
  if (launch.cooperative && volume(g) > launch.residentBlocks)
    return cudaErrorCooperativeLaunchTooLarge;
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  const auto kernel = findKernel(function);
  if (!kernel) return result(cudaErrorInvalidDeviceFunction);
  Launch launch;
  if (const cudaError_t error = fill(*config, launch); error != cudaSuccess) return result(error);
  launch.kernel = kernel->name;
  launch.body = kernel->bind(function, arguments);
  run(launch);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return std::exchange(lastError, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the emulated runtime";
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = kProcessors; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; return cudaSuccess;
    default: return result(cudaErrorNotSupported);
  }
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (posix_memalign(memory, kAlignment, bytes) != 0) return result(cudaErrorMemoryAllocation);
  std::memset(*memory, kFreshByte, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  touchRead(from, bytes, "cudaMemcpy");
  touchWrite(to, bytes, "cudaMemcpy");
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  touchWrite(to, bytes, "cudaMemset");
  std::memset(to, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool known = std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
  *function = known ? reinterpret_cast<void*>(&encodeTensorMap) : nullptr;
  if (found != nullptr)
    *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
