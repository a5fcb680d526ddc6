#pragma once

// What code that nvcc has compiled says of itself before main(): its kernels and its variables. Its
// machine code is for GPUs, so such a kernel is known by name, and every launch of it is refused.

#include <cuda_runtime_api.h>

#include <map>
#include <string>

namespace tutti::emulation {

// All of these under the runtime's lock.

/// The name of the kernel that the host function stands for, as people write it; empty where no
/// machine code has one.
std::string machineCodeOf(const void* function);

/// A variable of device memory. A GPU has its initial bytes in the machine code; here they are
/// those of fresh memory.
struct Variable {
  std::string name;
  size_t bytes = 0;
  std::map<int, void*> memory;  // by device, once somebody asks
};
/// Null where nothing was registered for the host's symbol.
Variable* findVariable(const void* symbol);

/// Says on stderr, once of each `what`, that emulated GPUs cannot run machine code; the error of
/// it.
cudaError_t refuseMachineCode(const std::string& what);

}  // namespace tutti::emulation
