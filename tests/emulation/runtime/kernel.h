#pragma once

// Kernels as tasks, and how many of their blocks a device holds.

#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/stream.h"

namespace tutti::emulation {

/// Under the runtime's lock; checks what CUDA checks, and returns its error.
cudaError_t makeKernelTask(const cudaLaunchConfig_t& config, const void* function, void** arguments,
                           TaskPointer& task);
cudaError_t makeKernelTask(const cudaKernelNodeParams* params, TaskPointer& task);

constexpr unsigned kMaxPortableCluster = 8, kMaxCluster = 16;

/// What cudaFuncSetAttribute() sets.
struct FunctionSettings {
  size_t dynamicSharedBytes = kDefaultSharedBytes;
  int carveout = -1;
  bool mayHaveBigClusters = false;
};
FunctionSettings& settingsOf(const void* function);

/// Kernels of the emulation are known only once they were launched; until then anything in a
/// program may be one.
bool mayBeKernel(const void* function);

/// Loads the function on the current device; false where it was loaded before.
bool isFirstUse(const void* function);

/// What the attributes of a launch say; CUDA's error for those that it does not know.
cudaError_t readAttributes(const cudaLaunchConfig_t& config, Launch& launch);

/// 0 where not one fits.
int blocksPerProcessor(uint64_t threadsPerBlock, size_t dynamicSharedBytes);

}  // namespace tutti::emulation
