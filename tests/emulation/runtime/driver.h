#pragma once

// The driver's functions that the stand-in has, by their exported names: for programs that ask the
// runtime for them, and for those that look into libcuda.so.1.

#define TUTTI_DRIVER_FUNCTIONS(X)                \
  X(cuInit)                                      \
  X(cuDriverGetVersion)                          \
  X(cuGetErrorName)                              \
  X(cuGetErrorString)                            \
  X(cuGetProcAddress_v2)                         \
  X(cuDeviceGet)                                 \
  X(cuDeviceGetCount)                            \
  X(cuDeviceGetName)                             \
  X(cuDeviceGetUuid_v2)                          \
  X(cuDeviceTotalMem_v2)                         \
  X(cuDeviceGetAttribute)                        \
  X(cuDeviceGetPCIBusId)                         \
  X(cuDeviceCanAccessPeer)                       \
  X(cuDevicePrimaryCtxRetain)                    \
  X(cuDevicePrimaryCtxRelease_v2)                \
  X(cuCtxGetCurrent)                             \
  X(cuCtxSetCurrent)                             \
  X(cuCtxGetDevice)                              \
  X(cuCtxPushCurrent_v2)                         \
  X(cuCtxPopCurrent_v2)                          \
  X(cuStreamGetCtx)                              \
  X(cuMemGetAddressRange_v2)                     \
  X(cuPointerGetAttribute)                       \
  X(cuMemsetD32_v2)                              \
  X(cuMemsetD32Async)                            \
  X(cuMemCreate)                                 \
  X(cuMemRelease)                                \
  X(cuMemAddressReserve)                         \
  X(cuMemAddressFree)                            \
  X(cuMemMap)                                    \
  X(cuMemUnmap)                                  \
  X(cuMemSetAccess)                              \
  X(cuMemGetAccess)                              \
  X(cuMemExportToShareableHandle)                \
  X(cuMemImportFromShareableHandle)              \
  X(cuMemGetAllocationGranularity)               \
  X(cuMemGetAllocationPropertiesFromHandle)      \
  X(cuMemRetainAllocationHandle)                 \
  X(cuMulticastCreate)                           \
  X(cuMulticastAddDevice)                        \
  X(cuMulticastBindMem)                          \
  X(cuMulticastUnbind)                           \
  X(cuMulticastGetGranularity)                   \
  X(cuStreamWriteValue32_v2)                     \
  X(cuStreamWriteValue64_v2)                     \
  X(cuStreamWaitValue32_v2)                      \
  X(cuStreamWaitValue64_v2)                      \
  X(cuStreamBatchMemOp_v2)                       \
  X(cuTensorMapEncodeTiled)                      \
  X(cuDevicePrimaryCtxGetState)                  \
  X(cuDeviceGetDevResource)                      \
  X(cuDevSmResourceSplitByCount)                 \
  X(cuDevResourceGenerateDesc)                   \
  X(cuGreenCtxCreate)                            \
  X(cuGreenCtxDestroy)                           \
  X(cuGreenCtxStreamCreate)                      \
  X(cuCtxFromGreenCtx)                           \
  X(cuLaunchKernel)                              \
  X(cuLaunchCooperativeKernel)                   \
  X(cuFuncGetAttribute)                          \
  X(cuFuncSetAttribute)                          \
  X(cuFuncSetCacheConfig)                        \
  X(cuKernelGetAttribute)                        \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuModuleLoad)                                \
  X(cuModuleLoadData)                            \
  X(cuModuleLoadDataEx)                          \
  X(cuModuleUnload)                              \
  X(cuModuleGetFunction)                         \
  X(cuLinkCreate_v2)                             \
  X(cuLinkAddData_v2)                            \
  X(cuLinkComplete)                              \
  X(cuLinkDestroy)                               \
  X(cuLogsRegisterCallback)                      \
  X(cuLogsUnregisterCallback)

/// The function of that name, version and all; null where the stand-in has none. The shared library
/// that stands in for libcuda.so.1 finds it in the program that loads it.
extern "C" void* tuttiEmulatedDriverFunction(const char* name);
