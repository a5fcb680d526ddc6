#pragma once

// What tests of the CUDA part of the device layer and those of communicators share, which run on
// the emulation's four devices and on GPUs, be it one.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <tutti/device.h>

#include "src/device/cuda/guards.h"
#include "tests/support/outcome.h"

namespace tutti::tests {

inline constexpr int kDevices = 4;  ///< of the emulation, where nothing says otherwise

inline Device gpu(int index) { return {DeviceKind::Cuda, index}; }

inline int devices() { return deviceCount(DeviceKind::Cuda); }

/// A GPU for each index, another one for another index where there are so many.
inline Device someGpu(int index) { return gpu(index % devices()); }

inline int currentDevice() {
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  return device;
}

/// Every test begins on device 0 and ends with all work done, no capture, and no error of CUDA that
/// the library has left to the program.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    cudaGetLastError();
  }
  void TearDown() override {
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    for (int device = 0; device < devices(); ++device) {
      EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
  }
};

/// Calls `call` with each device current in turn, and expects it to be so afterwards too.
template <class Call>
void onEveryDevice(const char* what, const Call& call) {
  for (int current = 0; current < devices(); ++current) {
    ASSERT_EQ(cudaSetDevice(current), cudaSuccess);
    call();
    EXPECT_EQ(currentDevice(), current) << what;
  }
}

/// Of a graph: how many kernels it launches. The runtime calls the type of a node unknown that is a
/// stream's memory operations, for which it has no name.
inline size_t kernelsOf(cudaGraph_t graph) {
  size_t count = 0, kernels = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  std::vector<cudaGraphNode_t> nodes(count);
  EXPECT_EQ(cudaGraphGetNodes(graph, nodes.data(), &count), cudaSuccess);
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    const cudaError_t known = cudaGraphNodeGetType(node, &type);
    if (known == cudaErrorUnknown) {
      cudaGetLastError();
      continue;
    }
    EXPECT_EQ(known, cudaSuccess);
    kernels += type == cudaGraphNodeTypeKernel;
  }
  return kernels;
}

/// Nothing behind it on its stream runs until it is opened.
class CudaGate {
 public:
  explicit CudaGate(StreamRef stream) {
    const device::OnDevice here(stream.device().index);
    const auto wait = [](void* flag) {
      while (!static_cast<std::atomic<bool>*>(flag)->load(std::memory_order_acquire))
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    };
    EXPECT_EQ(cudaLaunchHostFunc(stream.cuda(), wait, &isOpen_), cudaSuccess);
  }
  void open() { isOpen_.store(true, std::memory_order_release); }

 private:
  std::atomic<bool> isOpen_{false};
};

}  // namespace tutti::tests
