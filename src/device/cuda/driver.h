#pragma once

// Functions of the driver, which the runtime finds: nothing is linked with libcuda.

#include <cuda_runtime_api.h>

namespace tutti::device {

/// `version` is that of CUDA in which the function got its present arguments, for example 12000.
/// Throws Unsupported where the driver has no such function.
void* findDriverFunction(const char* name, unsigned version);

template <class Function>
Function* driverFunction(const char* name, unsigned version) {
  return reinterpret_cast<Function*>(findDriverFunction(name, version));
}

}  // namespace tutti::device
