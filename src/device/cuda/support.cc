// Whether there is CUDA, whose memory is whose, and the loading of kernels.

#include <cuda_runtime_api.h>

#include "src/base/check.h"
#include "src/base/process.h"
#include "src/device/cuda.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/guards.h"

// Of the stand-in alone; null in programs linked with NVIDIA's runtime.
extern "C" [[gnu::weak]] int tuttiEmulation();

namespace tutti::device {
namespace {

CudaSupport ask() {
  CudaSupport support{.emulated = tuttiEmulation != nullptr};
  const cudaError_t error = cudaGetDeviceCount(&support.devices);
  if (error == cudaSuccess && support.devices > 0) return support;
  cudaGetLastError();
  support.devices = 0;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    support.missing =
        "CUDA finds no GPU: there is no driver on this machine; install NVIDIA's, or start the "
        "container with the GPUs (docker run --gpus all)";
    return support;
  }
  support.missing =
      "CUDA finds no GPU" +
      (error == cudaSuccess ? std::string() : ": cudaGetDeviceCount: " + describe(error));
  return support;
}

}  // namespace

const CudaSupport& cudaSupport() {
  static const base::ProcessGuard guard;
  static const CudaSupport support = ask();
  if (support.devices > 0) guard.requireOwner("CUDA");  // which does not survive a fork
  return support;
}

MemoryPlace placeOf(const void* address) {
  using Kind = MemoryPlace::Kind;
  if (cudaSupport().devices == 0) return {};
  cudaPointerAttributes attributes{};
  TUTTI_CUDA(cudaPointerGetAttributes(&attributes, address));
  switch (attributes.type) {
    case cudaMemoryTypeHost: return {Kind::Pinned};
    case cudaMemoryTypeDevice: return {Kind::Cuda, attributes.device};
    case cudaMemoryTypeManaged: return {Kind::Managed};
    default: return {};
  }
}

void loadKernels(std::span<const Kernel> kernels, int device) {
  requireCudaDevice(device);
  const OnDevice here(device);
  for (const Kernel& kernel : kernels) {
    cudaFuncAttributes attributes{};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel.address);
    if (error != cudaSuccess)
      failCuda("cudaFuncGetAttributes", error, base::message("kernel ", kernel.name));
  }
}

}  // namespace tutti::device
