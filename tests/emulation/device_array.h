#pragma once

// What the host side of tests of kernels needs, on a GPU and in the emulation.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace tutti::emulation {

/// Ends the process where a call of the CUDA runtime failed.
inline void check(cudaError_t error, const char* what = "a call of the CUDA runtime") {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s failed: %s (%d)\n", what, cudaGetErrorString(error), int(error));
  std::exit(1);
}

/// Elements in device memory.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), "cudaMalloc");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    upload(values);
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  ~DeviceArray() { cudaFree(data_); }

  T* get() const { return data_; }
  size_t size() const { return count_; }
  /// There for kernels of every stream when they return, which CUDA does not promise of either
  /// call.
  void upload(const std::vector<T>& values) {
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    check(cudaDeviceSynchronize());
  }
  void fill(int byte) {
    check(cudaMemset(data_, byte, count_ * sizeof(T)));
    check(cudaDeviceSynchronize());
  }
  std::vector<T> download() const {
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

/// A function of the driver, by its name: TUTTI_DRIVER(cuMemCreate)(...). Ends the process where
/// the driver has none.
void* driverFunction(const char* name);
#define TUTTI_DRIVER(name) \
  reinterpret_cast<decltype(&name)>(::tutti::emulation::driverFunction(#name))

/// A tensor in device memory and the boxes in which TMA copies it; the contiguous dimension first.
struct TensorBox {
  CUtensorMapDataType type;
  void* data;
  std::vector<uint64_t> size;
  std::vector<uint64_t> strideBytes;  // of all dimensions but the first
  std::vector<uint32_t> box;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
};

/// Ends the process where the driver refuses it.
CUtensorMap makeTensorMap(const TensorBox& tensor);

/// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  /// From -range to range.
  int between(int range) { return int(int64_t(next() % (2 * uint64_t(range) + 1)) - range); }

 private:
  uint64_t state_;
};

}  // namespace tutti::emulation
