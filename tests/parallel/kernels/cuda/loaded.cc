// Loads kernels as whoever computes with them does, before the tests of a program that launches
// them by themselves. With TUTTI_EMULATION_LAZY_LOADING=2 a kernel that is forgotten there ends it.

#include <gtest/gtest.h>

#include <tutti/device.h>

#include "parallel/kernels/cuda/cuda_kernels.h"

namespace tutti::parallel {
namespace {

class Loaded final : public testing::Environment {
  void SetUp() override {
    const Stream stream(Device{DeviceKind::Cuda, 0});
    const CudaKernels kernels{stream};
  }
};
[[maybe_unused]] const testing::Environment* const loaded =
    testing::AddGlobalTestEnvironment(new Loaded);

}  // namespace
}  // namespace tutti::parallel
