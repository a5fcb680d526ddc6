// kernels.h: by nvcc for a GPU, by g++ for the emulation.

#include <tutti/cuda/launch.h>

#include "src/executor/copy/fold_kernel_device.cuh"

namespace tutti::executor::copy {
namespace {

using Kernel = void (*)(FoldArguments);

Kernel kernelOf(size_t elementBytes) {
  switch (elementBytes) {
    case 1: return foldPiece<1>;
    case 2: return foldPiece<2>;
    case 4: return foldPiece<4>;
    default: return foldPiece<8>;
  }
}

}  // namespace

cudaError_t launchFold(size_t elementBytes, uint32_t blocks, const FoldArguments& arguments,
                       cudaStream_t stream) {
  return ::tutti::cuda::launch(
      kernelOf(elementBytes), {.grid = dim3(blocks), .block = dim3(kFoldThreads), .stream = stream},
      arguments);
}

const void* foldAddress(size_t elementBytes) {
  return reinterpret_cast<const void*>(kernelOf(elementBytes));
}

}  // namespace tutti::executor::copy
