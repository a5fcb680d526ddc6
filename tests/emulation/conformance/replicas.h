#pragma once

// Memory of several devices behind one address: a multicast object of the driver.

#include <cuda.h>

#include "tests/emulation/device_array.h"

namespace tutti::emulation::conformance {

inline void checkDriver(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "%s failed: %d\n", what, int(result));
  std::exit(1);
}
#define TUTTI_CHECK_DRIVER(name, ...) checkDriver(TUTTI_DRIVER(name)(__VA_ARGS__), #name)

/// Whether `count` devices are there that a switch joins so.
inline bool canMulticast(int count) {
  int devices = 0, isSupported = 0;
  check(cudaGetDeviceCount(&devices));
  if (devices < count) return false;
  for (int device = 0; device < count; ++device) {
    int here = 0;
    TUTTI_CHECK_DRIVER(cuDeviceGetAttribute, &here, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
                       device);
    isSupported += here;
  }
  return isSupported == count;
}

/// Physical memory that one device may use at an address of its own.
class Mapping {
 public:
  Mapping(CUmemGenericAllocationHandle memory, size_t bytes, int device)
      : memory_(memory), bytes_(bytes) {
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device},
                                 CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    TUTTI_CHECK_DRIVER(cuMemAddressReserve, &address_, bytes, 0, 0, 0);
    TUTTI_CHECK_DRIVER(cuMemMap, address_, bytes, 0, memory, 0);
    TUTTI_CHECK_DRIVER(cuMemSetAccess, address_, bytes, &access, 1);
  }
  Mapping(Mapping&& other) noexcept
      : memory_(other.memory_), bytes_(other.bytes_), address_(std::exchange(other.address_, 0)) {}
  ~Mapping() {
    if (address_ == 0) return;
    TUTTI_CHECK_DRIVER(cuMemUnmap, address_, bytes_);
    TUTTI_CHECK_DRIVER(cuMemAddressFree, address_, bytes_);
    TUTTI_CHECK_DRIVER(cuMemRelease, memory_);
  }
  CUmemGenericAllocationHandle memory() const { return memory_; }
  uint32_t* words() const { return reinterpret_cast<uint32_t*>(address_); }

 private:
  CUmemGenericAllocationHandle memory_;
  size_t bytes_;
  CUdeviceptr address_ = 0;
};

/// The same words of devices 0, 1 and so on, each with values of its own at first, and the address
/// at which device 0 reaches all of them.
class Replicas {
 public:
  explicit Replicas(const std::vector<std::vector<uint32_t> >& values) : count_(values[0].size()) {
    CUmulticastObjectProp wanted{};
    wanted.numDevices = unsigned(values.size());
    wanted.size = count_ * 4;
    wanted.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    TUTTI_CHECK_DRIVER(cuMulticastGetGranularity, &bytes_, &wanted,
                       CU_MULTICAST_GRANULARITY_RECOMMENDED);
    wanted.size = bytes_;
    CUmemGenericAllocationHandle object = 0;
    TUTTI_CHECK_DRIVER(cuMulticastCreate, &object, &wanted);
    for (int device = 0; device < int(values.size()); ++device)
      TUTTI_CHECK_DRIVER(cuMulticastAddDevice, object, device);
    for (int device = 0; device < int(values.size()); ++device) {
      check(cudaSetDevice(device));
      replicas_.push_back(allocate(device));
      TUTTI_CHECK_DRIVER(cuMulticastBindMem, object, 0, replicas_.back().memory(), 0, bytes_, 0);
      check(cudaMemcpy(replicas_.back().words(), values[size_t(device)].data(), count_ * 4,
                       cudaMemcpyHostToDevice));
      check(cudaDeviceSynchronize());
    }
    check(cudaSetDevice(0));
    all_.emplace_back(object, bytes_, 0);
  }
  ~Replicas() {
    for (int device = 0; device < int(replicas_.size()); ++device)
      TUTTI_CHECK_DRIVER(cuMulticastUnbind, all_[0].memory(), device, 0, bytes_);
  }

  uint32_t* all() const { return all_[0].words(); }
  /// What a device has now.
  std::vector<uint32_t> download(size_t device) const {
    std::vector<uint32_t> values(count_);
    check(cudaMemcpy(values.data(), replicas_[device].words(), count_ * 4, cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  Mapping allocate(int device) const {
    CUmemAllocationProp wanted{};
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle memory = 0;
    TUTTI_CHECK_DRIVER(cuMemCreate, &memory, bytes_, &wanted, 0);
    return Mapping(memory, bytes_, device);
  }

  size_t count_, bytes_ = 0;
  std::vector<Mapping> replicas_, all_;
};

}  // namespace tutti::emulation::conformance
