// Contexts of the driver: those of devices, and the stack of a thread.

#include <cudaTypedefs.h>

#include <thread>

#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {
namespace {

class ContextTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (deviceCount() < 2) GTEST_SKIP() << "needs two devices";
    for (int device : {0, 1})
      ASSERT_EQ(DRIVER(cuDevicePrimaryCtxRetain)(&contexts_[device], device), CUDA_SUCCESS);
    EXPECT_CUDA(cudaSetDevice(0));
  }
  void TearDown() override {
    for (int device : {0, 1}) EXPECT_EQ(DRIVER(cuDevicePrimaryCtxRelease)(device), CUDA_SUCCESS);
    RuntimeTest::TearDown();
  }
  /// As the driver has it; to find its function asks the runtime, which makes a context current.
  CUcontext current() {
    CUcontext found = nullptr;
    EXPECT_EQ(get_(&found), CUDA_SUCCESS);
    return found;
  }

  CUcontext contexts_[2] = {};
  decltype(&cuCtxGetCurrent) get_ = DRIVER(cuCtxGetCurrent);
  decltype(&cuCtxSetCurrent) set_ = DRIVER(cuCtxSetCurrent);
  decltype(&cuCtxPushCurrent) push_ = DRIVER(cuCtxPushCurrent);
  decltype(&cuCtxPopCurrent) pop_ = DRIVER(cuCtxPopCurrent);
  decltype(&cuCtxGetDevice) device_ = DRIVER(cuCtxGetDevice);
};

TEST_F(ContextTest, TheRuntimesDeviceIsTheCurrentContext) {
  EXPECT_EQ(current(), contexts_[0]);
  EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(current(), contexts_[1]);
  EXPECT_EQ(set_(contexts_[0]), CUDA_SUCCESS);
  int device = -1;
  EXPECT_CUDA(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
}

TEST_F(ContextTest, ContextsAreAStack) {
  EXPECT_EQ(push_(contexts_[1]), CUDA_SUCCESS);
  EXPECT_EQ(push_(contexts_[0]), CUDA_SUCCESS);
  EXPECT_EQ(current(), contexts_[0]);
  CUcontext popped = nullptr;
  EXPECT_EQ(pop_(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, contexts_[0]);
  CUdevice device = -1;
  EXPECT_EQ(device_(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(pop_(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, contexts_[1]);
  EXPECT_EQ(current(), contexts_[0]);
}

TEST_F(ContextTest, AThreadMayHaveNone) {
  std::thread([&] {
    CUcontext popped = nullptr;
    CUdevice device = -1;
    EXPECT_EQ(current(), nullptr);
    EXPECT_EQ(pop_(&popped), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(device_(&device), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(push_(contexts_[1]), CUDA_SUCCESS);
    EXPECT_EQ(current(), contexts_[1]);
    EXPECT_EQ(set_(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(current(), nullptr);
    EXPECT_CUDA(cudaFree(nullptr));  // the runtime makes one current, of the device that is its own
    EXPECT_EQ(current(), contexts_[0]);
  }).join();
}

TEST_F(ContextTest, WhatIsNoContextIsRefused) {
  auto* const none = reinterpret_cast<CUcontext>(this);
  EXPECT_EQ(set_(none), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(push_(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(get_(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(current(), contexts_[0]);
}

TEST_F(ContextTest, DevicesSayWhetherTheyHaveOne) {
  const auto state = DRIVER(cuDevicePrimaryCtxGetState);
  unsigned flags = 0;
  int isActive = -1;
  EXPECT_EQ(state(1, &flags, &isActive), CUDA_SUCCESS);
  EXPECT_EQ(isActive, 1);
  EXPECT_EQ(state(deviceCount(), &flags, &isActive), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(state(0, nullptr, &isActive), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tutti::emulation
