#include "src/nccl/device_pointers.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include <tutti/device.h>
#include "src/base/check.h"

namespace tutti::nccl {
namespace {

// From CUDA's driver API: cuPointerGetAttribute(), and the values that are asked for.
using GetAttribute = int (*)(void* data, int attribute, uint64_t pointer);
constexpr int kMemoryType = 2, kIsManaged = 8;
constexpr unsigned kDeviceMemory = 2;

std::atomic<GetAttribute> getAttribute{nullptr};

/// Memory that the driver does not know is the host's own.
bool onDevice(GetAttribute ask, const void* pointer) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  unsigned type = 0, managed = 0;
  if (ask(&type, kMemoryType, address) != 0 || type != kDeviceMemory) return false;
  return ask(&managed, kIsManaged, address) != 0 || managed == 0;
}

}  // namespace

void findDriver() {
  if (getAttribute.load(std::memory_order_acquire)) return;
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return;  // never closed: it is the program's, and stays
  getAttribute.store(reinterpret_cast<GetAttribute>(::dlsym(driver, "cuPointerGetAttribute")),
                     std::memory_order_release);
}

void requireHostMemory(std::initializer_list<const void*> pointers) {
  const GetAttribute ask = getAttribute.load(std::memory_order_acquire);
  if (!ask) return;
  for (const void* pointer : pointers)
    TUTTI_REQUIRE(!pointer || !onDevice(ask, pointer), pointer,
                  " is memory of a GPU, and this communicator is of the host: ",
                  whyNoDevice(DeviceKind::Cuda));
}

void requireNoStream(cudaStream_t stream) {
  constexpr uintptr_t kLegacy = 1, kPerThread = 2;
  const auto number = reinterpret_cast<uintptr_t>(stream);
  TUTTI_REQUIRE(number == 0 || number == kLegacy || number == kPerThread, "stream ", stream,
                " is not null, and this communicator is of the host, without streams: ",
                whyNoDevice(DeviceKind::Cuda));
}

}  // namespace tutti::nccl
