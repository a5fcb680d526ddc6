#pragma once

// The functions of the CUDA driver that the inventory calls, found when the program runs: no CUDA
// toolkit is needed to build, and no driver to start.

#include <cstddef>
#include <string>

namespace tutti::topology {

/// The types are those of cuda.h: CUresult and CUdevice are ints, 0 is success.
struct CudaDriver {
  std::string missing;  ///< why there is no driver; then no function is set

  int (*init)(unsigned flags) = nullptr;
  int (*getErrorString)(int error, const char** text) = nullptr;
  int (*driverGetVersion)(int* version) = nullptr;
  int (*deviceGetCount)(int* count) = nullptr;
  int (*deviceGet)(int* device, int ordinal) = nullptr;
  int (*deviceGetName)(char* name, int bytes, int device) = nullptr;
  int (*deviceGetPciBusId)(char* id, int bytes, int device) = nullptr;
  int (*deviceGetUuid)(void* sixteenBytes, int device) = nullptr;
  int (*deviceTotalMem)(size_t* bytes, int device) = nullptr;
  int (*deviceGetAttribute)(int* value, int attribute, int device) = nullptr;
  int (*deviceCanAccessPeer)(int* can, int device, int peer) = nullptr;
};

/// From libcuda.so.1.
CudaDriver loadCudaDriver();

}  // namespace tutti::topology
