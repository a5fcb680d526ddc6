#pragma once

// What tests of the runtime share. They keep to CUDA's own functions, so that the same sources,
// linked with NVIDIA's runtime, show on a GPU that the stand-in behaves as it does.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <tutti/cuda/launch.h>

#include "tests/emulation/runtime_device.cuh"

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)
#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess)

namespace tutti::emulation {

inline int deviceCount() {
  int count = 0;
  cudaGetDeviceCount(&count);
  return count;
}

/// Those that makeStream() has made since a test began.
inline std::vector<cudaStream_t>& madeStreams() {
  static std::vector<cudaStream_t> all;
  return all;
}

/// Loads the kernels on the current device. To load one at its first launch may wait for all that
/// the device does, kernels that wait for this one among it.
inline void loadKernels() {
  cudaFuncAttributes unused;
  for (const void* kernel :
       {cuda::addressOf(addTo), cuda::addressOf(doubleAndAdd), cuda::addressOf(meet),
        cuda::addressOf(awaitFlag), cuda::addressOf(raiseFlag), cuda::addressOf(sumOverDevices)})
    EXPECT_CUDA(cudaFuncGetAttributes(&unused, kernel));
}

/// Every test begins without an error left over, on device 0, with all kernels loaded, and ends
/// with all work done. Its streams end with it: more than a device has queues would share them, and
/// what one of them waits for could be behind another.
class RuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) GTEST_SKIP() << "no CUDA device";
    for (int device = count - 1; device >= 0; --device) {
      ASSERT_CUDA(cudaSetDevice(device));
      loadKernels();
    }
    madeStreams().clear();
    cudaGetLastError();
  }
  void TearDown() override {
    EXPECT_CUDA(cudaSetDevice(0));
    EXPECT_CUDA(cudaDeviceSynchronize());
    for (cudaStream_t stream : madeStreams()) EXPECT_CUDA(cudaStreamDestroy(stream));
    madeStreams().clear();
    cudaGetLastError();
  }
};

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

/// Destroyed when the test ends.
inline cudaStream_t makeStream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, flags));
  madeStreams().push_back(stream);
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

/// A stream that does nothing until open() is called: what is behind it is under way till then. A
/// test that waits for that before, or whose call does, fails after seconds and does not hang.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) : flag_(allocatePinned<uint32_t>(1)) {
    EXPECT_CUDA(cuda::launch(awaitFlag, {.stream = stream}, flag_, 1u));
    warden_ = std::thread([this] { openLate(); });
  }
  ~Gate() {
    open();
    warden_.join();
    EXPECT_FALSE(wasLate_) << "nothing went on before the gate was open";
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() {
    isOpen_ = true;
    raise();
  }

 private:
  static constexpr int kLimitMs = 8000;

  void raise() { __atomic_store_n(flag_, 1u, __ATOMIC_RELEASE); }
  void openLate() {
    for (int ms = 0; ms < kLimitMs && !isOpen_; ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (isOpen_) return;
    wasLate_ = true;
    raise();
  }

  uint32_t* flag_;  // never freed: the kernel may still look
  std::atomic<bool> isOpen_{false}, wasLate_{false};
  std::thread warden_;
};

}  // namespace tutti::emulation
