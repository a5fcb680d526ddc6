#pragma once

// Memory that p2p and the CUDA executor own, of a device and pinned, and what they have opened of
// other processes.

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

#include "src/base/backoff.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/guards.h"
#include "src/device/cuda/ipc_memory.h"
#include "src/device/cuda/library_stream.h"
#include "src/device/cuda/virtual_memory.h"

namespace tutti::transports::p2p {

using device::OnDevice;

/// A device's stream for set-up, where kernels of other streams may spin until a peer is ready.
class SetupStream {
 public:
  explicit SetupStream(int device)
      : stream_(device::sharedStream(device::StreamPurpose::SetUp, device)) {}
  cudaStream_t get() const { return stream_; }
  void wait() const { TUTTI_CUDA(cudaStreamSynchronize(stream_)); }
  /// False where that takes longer.
  bool wait(std::chrono::milliseconds patience) const {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (base::Backoff backoff(false);; backoff.idle()) {
      if (device::hasEnded(stream_)) return true;
      if (std::chrono::steady_clock::now() >= until) return false;
    }
  }

 private:
  const cudaStream_t stream_;
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
    clear();
  }
  /// Memory of `device` that other processes may map.
  DeviceMemory(int device, device::VirtualMemory memory) : shared_(std::move(memory)) {
    device_ = device;
    bytes_ = shared_.bytes();
    data_ = shared_.data();
    clear();
  }
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr && shared_.data() == nullptr) cudaFree(data_);
  }

  int device() const { return device_; }
  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  size_t bytes() const { return bytes_; }
  /// What other processes map; of no bytes where they cannot.
  device::VirtualMemory& shared() { return shared_; }
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
  void clear() {
    OnDevice on(device_);
    SetupStream stream(device_);
    TUTTI_CUDA(cudaMemsetAsync(data_, 0, bytes_, stream.get()));
    stream.wait();
  }
  void swap(DeviceMemory& other) {
    std::swap(shared_, other.shared_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(device_, other.device_);
  }
  device::VirtualMemory shared_;
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
