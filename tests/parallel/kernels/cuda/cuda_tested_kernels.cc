// The kernels of a GPU. Operands are in pinned memory, each an allocation of its own.

#include <tutti/device.h>

#include "parallel/kernels/cuda/cuda_kernels.h"
#include "tests/parallel/kernels/tested_kernels.h"

namespace tutti::parallel {
namespace {

class OnGpu final : public TestedKernels {
 public:
  Kernels& kernels() override { return kernels_; }
  Tensor allocate(DType type, const Shape& shape) override {
    memory_.push_back(allocatePinned(byteCount(type, shape)));
    return {memory_.back().data(), type, shape};
  }
  void finish() override { stream_.synchronize(); }

 private:
  std::vector<Memory> memory_;
  Stream stream_{Device{DeviceKind::Cuda, 0}};
  CudaKernels kernels_{stream_};
};

}  // namespace

std::vector<TestedDevice> testedDevices() {
  return {{"Cuda", []() -> std::unique_ptr<TestedKernels> { return std::make_unique<OnGpu>(); }}};
}

}  // namespace tutti::parallel
