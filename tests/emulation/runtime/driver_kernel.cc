// The driver's launches and its questions about kernels. Its handle of a kernel is the runtime's:
// the address of the host's function.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/kernel.h"

namespace tutti::emulation {
namespace {

/// What is no kernel is a wrong handle to the driver.
CUresult ofKernel(cudaError_t error) {
  return error == cudaErrorInvalidDeviceFunction ? CUDA_ERROR_INVALID_HANDLE : CUresult(error);
}

CUresult attributeOfKernel(int* to, CUfunction_attribute which, const void* kernel) {
  cudaFuncAttributes all{};
  if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = ofKernel(cudaFuncGetAttributes(&all, kernel)); bad != CUDA_SUCCESS)
    return bad;
  const auto give = [&](auto value) { return *to = int(value), CUDA_SUCCESS; };
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return give(all.maxThreadsPerBlock);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return give(all.sharedSizeBytes);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: return give(all.constSizeBytes);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return give(all.localSizeBytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS: return give(all.numRegs);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: return give(all.ptxVersion);
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return give(all.binaryVersion);
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: return give(all.cacheModeCA);
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return give(all.maxDynamicSharedSizeBytes);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return give(all.preferredShmemCarveout);
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: return give(all.clusterDimMustBeSet);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return give(all.requiredClusterWidth);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return give(all.requiredClusterHeight);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return give(all.requiredClusterDepth);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return give(all.nonPortableClusterSizeAllowed);
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return give(all.clusterSchedulingPolicyPreference);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace
}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

CUresult cuLaunchKernel(CUfunction kernel, unsigned gridX, unsigned gridY, unsigned gridZ,
                        unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                        CUstream stream, void** arguments, void** extra) {
  if (extra != nullptr)
    return arguments != nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  return ofKernel(cudaLaunchKernel(kernel, {gridX, gridY, gridZ}, {blockX, blockY, blockZ},
                                   arguments, sharedBytes, stream));
}

CUresult cuLaunchCooperativeKernel(CUfunction kernel, unsigned gridX, unsigned gridY,
                                   unsigned gridZ, unsigned blockX, unsigned blockY,
                                   unsigned blockZ, unsigned sharedBytes, CUstream stream,
                                   void** arguments) {
  return ofKernel(cudaLaunchCooperativeKernel(
      kernel, {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, arguments, sharedBytes, stream));
}

CUresult cuFuncGetAttribute(int* to, CUfunction_attribute which, CUfunction kernel) {
  return attributeOfKernel(to, which, kernel);
}
CUresult cuKernelGetAttribute(int* to, CUfunction_attribute which, CUkernel kernel,
                              CUdevice device) {
  return isDevice(device) ? attributeOfKernel(to, which, kernel) : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuFuncSetAttribute(CUfunction kernel, CUfunction_attribute which, int value) {
  return ofKernel(cudaFuncSetAttribute(kernel, cudaFuncAttribute(which), value));
}
CUresult cuFuncSetCacheConfig(CUfunction kernel, CUfunc_cache config) {
  return ofKernel(cudaFuncSetCacheConfig(kernel, cudaFuncCache(config)));
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* to, CUfunction kernel, int threads,
                                                     size_t sharedBytes) {
  return ofKernel(cudaOccupancyMaxActiveBlocksPerMultiprocessor(to, kernel, threads, sharedBytes));
}

}  // extern "C"
