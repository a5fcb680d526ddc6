#include "src/device/cuda/virtual_memory.h"

#include <cuda.h>
#include <fcntl.h>

#include <utility>

#include <tutti/device.h>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/driver.h"
#include "src/device/cuda/guards.h"

namespace tutti::device {
namespace {

// Found once, all of them with the arguments that they have had since CUDA 10.2.
#define TUTTI_FUNCTION(name) decltype(&::name) name = driverFunction<decltype(::name)>(#name, 10020)
struct MemoryDriver {
  TUTTI_FUNCTION(cuMemCreate);
  TUTTI_FUNCTION(cuMemRelease);
  TUTTI_FUNCTION(cuMemAddressReserve);
  TUTTI_FUNCTION(cuMemAddressFree);
  TUTTI_FUNCTION(cuMemMap);
  TUTTI_FUNCTION(cuMemUnmap);
  TUTTI_FUNCTION(cuMemSetAccess);
  TUTTI_FUNCTION(cuMemGetAccess);
  TUTTI_FUNCTION(cuPointerGetAttribute);
  TUTTI_FUNCTION(cuMemGetAllocationGranularity);
  TUTTI_FUNCTION(cuMemExportToShareableHandle);
  TUTTI_FUNCTION(cuMemImportFromShareableHandle);
};
#undef TUTTI_FUNCTION

const MemoryDriver& driver() {
  static const MemoryDriver functions;
  return functions;
}

constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// NICs may reach it where the GPU can be reached by them.
CUmemAllocationProp propertiesOf(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = kDescriptor;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  int reachable = 0;
  TUTTI_CUDA(cudaDeviceGetAttribute(
      &reachable,
      static_cast<cudaDeviceAttr>(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
      device));
  properties.allocFlags.gpuDirectRDMACapable = reachable != 0;
  return properties;
}

CUdeviceptr addressOf(void* data) { return reinterpret_cast<CUdeviceptr>(data); }

}  // namespace

bool VirtualMemory::isSupported(int device) {
  const auto has = [&](CUdevice_attribute attribute) {
    int value = 0;
    TUTTI_CUDA(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(attribute), device));
    return value != 0;
  };
  return has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
         has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
}

size_t VirtualMemory::granularity(int device) {
  const OnDevice here(device);
  const CUmemAllocationProp properties = propertiesOf(device);
  size_t bytes = 0;
  TUTTI_CUDA(driver().cuMemGetAllocationGranularity(&bytes, &properties,
                                                    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  return bytes;
}

VirtualMemory VirtualMemory::create(int device, size_t bytes, std::span<const int> peers) {
  TUTTI_REQUIRE(bytes > 0, "memory of no bytes cannot be shared");
  const OnDevice here(device);
  const OutsideCapture relaxed;
  TUTTI_CUDA(cudaInitDevice(device, 0, 0));
  VirtualMemory memory;
  const size_t unit = granularity(device);
  TUTTI_REQUIRE(bytes <= SIZE_MAX - unit, bytes, " bytes are more than there can be");
  memory.device_ = device;
  memory.bytes_ = (bytes + unit - 1) / unit * unit;
  const CUmemAllocationProp properties = propertiesOf(device);
  const auto made = static_cast<cudaError_t>(
      driver().cuMemCreate(&memory.physical_, memory.bytes_, &properties, 0));
  if (made != cudaSuccess)
    failCuda("cuMemCreate", made, base::message(memory.bytes_, " bytes were asked for"));
  memory.map();
  for (const int peer : peers) memory.allow(peer);
  return memory;
}

VirtualMemory VirtualMemory::open(const base::FileDescriptor& exported, int device, size_t bytes) {
  const OnDevice here(device);
  const OutsideCapture relaxed;
  TUTTI_CUDA(cudaInitDevice(device, 0, 0));
  VirtualMemory memory;
  memory.device_ = device;
  memory.bytes_ = bytes;
  auto* const handle = reinterpret_cast<void*>(static_cast<intptr_t>(exported.get()));
  TUTTI_CUDA(driver().cuMemImportFromShareableHandle(&memory.physical_, handle, kDescriptor));
  memory.map();
  return memory;
}

void VirtualMemory::map() {
  CUdeviceptr address = 0;
  TUTTI_CUDA(driver().cuMemAddressReserve(&address, bytes_, 0, 0, 0));
  data_ = reinterpret_cast<void*>(address);
  TUTTI_CUDA(driver().cuMemMap(address, bytes_, 0, physical_, 0));
  isMapped_ = true;
  allow(device_);
}

void VirtualMemory::allow(int device) {
  guard_.requireOwner("VirtualMemory::allow");
  const OnDevice here(device_);
  int reaches = device == device_;
  if (!reaches) TUTTI_CUDA(cudaDeviceCanAccessPeer(&reaches, device, device_));
  if (!reaches)
    base::fail(ErrorCode::Unsupported, toString(Device{DeviceKind::Cuda, device}),
               " has no way to memory of ", toString(Device{DeviceKind::Cuda, device_}));
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  TUTTI_CUDA(driver().cuMemSetAccess(addressOf(data_), bytes_, &access, 1));
}

base::FileDescriptor VirtualMemory::exported() const {
  guard_.requireOwner("VirtualMemory::exported");
  const OnDevice here(device_);
  int descriptor = -1;
  TUTTI_CUDA(driver().cuMemExportToShareableHandle(&descriptor, physical_, kDescriptor, 0));
  base::FileDescriptor file(descriptor);
  TUTTI_SYSCALL(::fcntl(file.get(), F_SETFD, FD_CLOEXEC));  // the driver does not promise it
  return file;
}

VirtualMemory::VirtualMemory(VirtualMemory&& other) noexcept
    : guard_(other.guard_),
      device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      physical_(std::exchange(other.physical_, 0)),
      isMapped_(std::exchange(other.isMapped_, false)) {}

VirtualMemory& VirtualMemory::operator=(VirtualMemory&& other) noexcept {
  if (this == &other) return *this;
  release();
  guard_ = other.guard_;
  device_ = other.device_;
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  physical_ = std::exchange(other.physical_, 0);
  isMapped_ = std::exchange(other.isMapped_, false);
  return *this;
}

VirtualMemory::~VirtualMemory() { release(); }

void VirtualMemory::release() noexcept {
  if (!physical_ || guard_.inForkedChild()) return;
  try {
    const OnDevice here(device_);
    const OutsideCapture relaxed;
    if (isMapped_) TUTTI_CUDA(driver().cuMemUnmap(addressOf(data_), bytes_));
    if (data_) TUTTI_CUDA(driver().cuMemAddressFree(addressOf(data_), bytes_));
    TUTTI_CUDA(driver().cuMemRelease(physical_));
  } catch (const std::exception& e) {
    base::log(LogLevel::Error, "memory of a GPU was not given back: ", e.what());
  }
}

namespace {

template <class T>
T attributeOf(CUdeviceptr address, CUpointer_attribute attribute) {
  T value{};
  TUTTI_CUDA(driver().cuPointerGetAttribute(&value, attribute, address));
  return value;
}

void allowPool(cudaMemPool_t pool, std::span<const int> peers) {
  for (const int peer : peers) {
    cudaMemAccessDesc access{{cudaMemLocationTypeDevice, peer}, cudaMemAccessFlagsProtReadWrite};
    cudaMemAccessFlags has = cudaMemAccessFlagsProtNone;
    TUTTI_CUDA(cudaMemPoolGetAccess(&has, pool, &access.location));
    if (has != access.flags) TUTTI_CUDA(cudaMemPoolSetAccess(pool, &access, 1));
  }
}

// Access is a mapping's, as a whole. What is none is reached by peer access, or not at all.
void allowMapped(CUdeviceptr data, size_t bytes, std::span<const int> peers) {
  for (CUdeviceptr at = data; at < data + bytes;) {
    const auto start = attributeOf<CUdeviceptr>(at, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
    const auto size = attributeOf<size_t>(at, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
    for (const int peer : peers) {
      const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, peer},
                                   CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      unsigned long long has = CU_MEM_ACCESS_FLAGS_PROT_NONE;
      const CUresult asked = driver().cuMemGetAccess(&has, &access.location, at);
      if (asked == CUDA_ERROR_INVALID_VALUE) return;
      TUTTI_CUDA(asked);
      if (has != access.flags) TUTTI_CUDA(driver().cuMemSetAccess(start, size, &access, 1));
    }
    at = start + size;
  }
}

}  // namespace

void allowPeers(const void* data, size_t bytes, int device, std::span<const int> peers) {
  if (bytes == 0 || peers.empty()) return;
  const OnDevice here(device);
  const OutsideCapture relaxed;
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  if (attributeOf<int>(address, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) != 0) return;
  if (attributeOf<unsigned>(address, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) != CU_MEMORYTYPE_DEVICE)
    return;
  if (const auto pool = attributeOf<cudaMemPool_t>(address, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE))
    allowPool(pool, peers);
  else
    allowMapped(address, bytes, peers);
}

}  // namespace tutti::device
