#pragma once

// The compiled kernels. For a GPU kernels.cu has them, compiled by nvcc; where they are emulated, a
// file that g++ compiles from the same sources.

#include <cuda_runtime_api.h>

#include "src/executor/kernel/arguments.h"

namespace tutti::executor::kernel {

struct Grid {
  uint32_t blocks, threads;
  uint32_t sharedBytes;
};

/// Enqueues the kernel of that wire and size of elements (1, 2, 4 or 8 bytes).
cudaError_t launchInterpreter(transports::p2p::Wire wire, size_t elementBytes, const Grid& grid,
                              const Arguments& arguments, cudaStream_t stream);
/// Enqueues the kernel of sends and receives.
cudaError_t launchExchange(const Grid& grid, const Arguments& arguments, cudaStream_t stream);
const void* exchangeAddress();
/// Their addresses, for questions to the runtime.
const void* interpreterAddress(transports::p2p::Wire wire, size_t elementBytes);

}  // namespace tutti::executor::kernel
