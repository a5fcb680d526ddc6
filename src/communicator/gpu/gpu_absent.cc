// gpu_join.h and gpu_rank.h in builds without CUDA, where no communicator has a GPU.

#include "src/base/check.h"
#include "src/communicator/gpu/gpu_join.h"
#include "src/device/cuda.h"

namespace tutti::communicator {

std::unique_ptr<GpuJoin> makeGpuJoin(const GpuJoin::Options& options) {
  device::requireCudaDevice(options.device.index);  // throws
  return nullptr;
}

void launchOnGpu(std::span<const RankLaunch>) {
  base::fail(ErrorCode::Unsupported, "this build has no CUDA");
}

}  // namespace tutti::communicator
