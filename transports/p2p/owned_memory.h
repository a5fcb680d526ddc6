#pragma once

// The two kinds of memory that p2p and the CUDA executor own.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "src/device/cuda/check.h"
#include "src/device/cuda/guards.h"

namespace tutti::transports::p2p {

using device::OnDevice;

/// A device's stream for set-up: it waits for nothing else there, where kernels may spin until a
/// peer is ready. All of the process share it, and it stays: CUDA deals its queues out as streams
/// are made, and ranks of one device whose streams get the same one would wait for each other.
/// Streams of different priorities do not share a queue, so it has the greatest, which callers'
/// seldom have.
class SetupStream {
 public:
  explicit SetupStream(int device) {
    static std::mutex mutex;
    static auto& streams = *new std::map<int, cudaStream_t>;
    const std::lock_guard lock(mutex);
    const auto known = streams.find(device);
    if (known != streams.end()) {
      stream_ = known->second;
      return;
    }
    OnDevice on(device);
    int least = 0, greatest = 0;
    TUTTI_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TUTTI_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
    streams.emplace(device, stream_);
  }
  cudaStream_t get() const { return stream_; }
  void wait() const { TUTTI_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Memory of a device, all zero, and nothing under way when it is there.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Delegates, so that what fails behind cudaMalloc() frees.
  DeviceMemory(int device, size_t bytes) : DeviceMemory() {
    device_ = device;
    bytes_ = bytes;
    OnDevice on(device);
    TUTTI_CUDA(cudaMalloc(&data_, bytes));
    SetupStream stream(device);
    TUTTI_CUDA(cudaMemsetAsync(data_, 0, bytes, stream.get()));
    stream.wait();
  }
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) cudaFree(data_);
  }

  int device() const { return device_; }
  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  /// There for every stream when it returns.
  void upload(const void* from, size_t bytes, size_t at = 0) {
    OnDevice on(device_);
    SetupStream stream(device_);
    TUTTI_CUDA(cudaMemcpyAsync(data() + at, from, bytes, cudaMemcpyHostToDevice, stream.get()));
    stream.wait();
  }

 private:
  void swap(DeviceMemory& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(device_, other.device_);
  }
  void* data_ = nullptr;
  int device_ = 0;
  size_t bytes_ = 0;
};

/// Values in host memory that kernels of all devices can touch, all zero.
template <class T>
class PinnedMemory {
 public:
  explicit PinnedMemory(size_t count) {
    void* data = nullptr;
    TUTTI_CUDA(cudaHostAlloc(&data, count * sizeof(T), cudaHostAllocPortable));
    std::memset(data, 0, count * sizeof(T));
    data_ = static_cast<T*>(data);
  }
  ~PinnedMemory() { cudaFreeHost(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

}  // namespace tutti::transports::p2p
