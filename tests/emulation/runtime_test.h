#pragma once

// What tests of the runtime share. They keep to CUDA's own functions, so that the same sources,
// linked with NVIDIA's runtime, show on a GPU that the stand-in behaves as it does.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include <tutti/cuda/launch.h>

#include "tests/emulation/runtime_device.cuh"

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)
#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess)

namespace tutti::emulation {

/// Every test begins without an error left over, on device 0, and ends with all work done.
class RuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) GTEST_SKIP() << "no CUDA device";
    ASSERT_CUDA(cudaSetDevice(0));
    cudaGetLastError();
  }
  void TearDown() override {
    EXPECT_CUDA(cudaSetDevice(0));
    EXPECT_CUDA(cudaDeviceSynchronize());
    cudaGetLastError();
  }
};

inline int deviceCount() {
  int count = 0;
  cudaGetDeviceCount(&count);
  return count;
}

template <class T>
T* allocate(size_t count) {
  void* memory = nullptr;
  EXPECT_CUDA(cudaMalloc(&memory, count * sizeof(T)));
  return static_cast<T*>(memory);
}

/// All zero, and nothing under way.
template <class T>
T* allocateZeros(size_t count) {
  T* const memory = allocate<T>(count);
  EXPECT_CUDA(cudaMemset(memory, 0, count * sizeof(T)));
  EXPECT_CUDA(cudaDeviceSynchronize());
  return memory;
}

template <class T>
std::vector<T> download(const T* memory, size_t count) {
  std::vector<T> values(count);
  EXPECT_CUDA(cudaMemcpy(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

/// Pinned memory, all zero.
template <class T>
T* allocatePinned(size_t count) {
  void* memory = nullptr;
  EXPECT_CUDA(cudaMallocHost(&memory, count * sizeof(T)));
  std::memset(memory, 0, count * sizeof(T));
  return static_cast<T*>(memory);
}

inline cudaStream_t makeStream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

inline cudaEvent_t makeEvent(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  EXPECT_CUDA(cudaEventCreateWithFlags(&event, flags));
  return event;
}

/// A function of the driver, as programs find it that do not link with libcuda.
template <class Function>
Function* driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_CUDA(cudaGetDriverEntryPointByVersion(name, &function, 12080, cudaEnableDefault, &found));
  EXPECT_EQ(found, cudaDriverEntryPointSuccess) << name;
  return reinterpret_cast<Function*>(function);
}
#define DRIVER(name) ::tutti::emulation::driver<decltype(name)>(#name)

/// A stream that does nothing until open() is called: what is behind it is under way till then.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) : flag_(allocatePinned<uint32_t>(1)) {
    EXPECT_CUDA(cuda::launch(awaitFlag, {.stream = stream}, flag_, 1u));
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() { __atomic_store_n(flag_, 1u, __ATOMIC_RELEASE); }

 private:
  uint32_t* flag_;  // never freed: the kernel may still look
};

}  // namespace tutti::emulation
