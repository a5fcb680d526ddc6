// kernels.h: by nvcc for a GPU, by g++ for the emulation.

#include <tutti/cuda/launch.h>

#include "src/executor/kernel/exchange_device.cuh"
#include "src/executor/kernel/interpreter_device.cuh"
#include "src/executor/kernel/kernels.h"

namespace tutti::executor::kernel {
namespace {

using transports::p2p::Wire;
using Kernel = void (*)(Arguments);

template <Wire kWire>
Kernel kernelOf(size_t elementBytes) {
  switch (elementBytes) {
    case 1: return interpret<kWire, 1>;
    case 2: return interpret<kWire, 2>;
    case 4: return interpret<kWire, 4>;
    default: return interpret<kWire, 8>;
  }
}

Kernel kernelOf(Wire wire, size_t elementBytes) {
  switch (wire) {
    case Wire::LL: return kernelOf<Wire::LL>(elementBytes);
    case Wire::LL128: return kernelOf<Wire::LL128>(elementBytes);
    default: return kernelOf<Wire::Simple>(elementBytes);
  }
}

}  // namespace

cudaError_t launchInterpreter(Wire wire, size_t elementBytes, const Grid& grid,
                              const Arguments& arguments, cudaStream_t stream) {
  return ::tutti::cuda::launch(kernelOf(wire, elementBytes),
                               {.grid = dim3(grid.blocks),
                                .block = dim3(grid.threads),
                                .dynamicSharedBytes = grid.sharedBytes,
                                .stream = stream},
                               arguments);
}

cudaError_t launchExchange(const Grid& grid, const Arguments& arguments, cudaStream_t stream) {
  return ::tutti::cuda::launch(exchange,
                               {.grid = dim3(grid.blocks),
                                .block = dim3(grid.threads),
                                .dynamicSharedBytes = grid.sharedBytes,
                                .stream = stream},
                               arguments);
}

const void* exchangeAddress() { return reinterpret_cast<const void*>(exchange); }

const void* interpreterAddress(Wire wire, size_t elementBytes) {
  return reinterpret_cast<const void*>(kernelOf(wire, elementBytes));
}

}  // namespace tutti::executor::kernel
