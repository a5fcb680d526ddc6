// gpu.h in builds without CUDA, where no communicator has a GPU.

#include "src/base/check.h"
#include "src/communicator/gpu/gpu.h"
#include "src/device/cuda.h"

namespace tutti::communicator {

std::unique_ptr<GpuSide> makeGpuSide(const GpuSide::Options& options) {
  device::requireCudaDevice(options.device.index);  // throws
  return nullptr;
}

bool mayFollow(std::span<const GpuLaunch>, const GpuLaunch&) { return false; }

void launchOnGpu(std::span<const GpuLaunch>) {
  base::fail(ErrorCode::Unsupported, "this build has no CUDA");
}

}  // namespace tutti::communicator
