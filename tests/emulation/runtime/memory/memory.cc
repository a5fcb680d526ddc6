// Device memory and pinned memory, and questions about addresses.

#include "tests/emulation/runtime/memory/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <map>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/faults.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"

namespace tutti::emulation {
namespace {

using Kind = Allocation::Kind;

std::map<const char*, Allocation>& table() {
  static auto* const all = new std::map<const char*, Allocation>;
  return *all;
}

struct DeviceFile {
  int file = -1;
  size_t end = 0;
};
DeviceFile& fileOf(int device) {
  static auto* const all = new std::array<DeviceFile, kMaxDevices>;
  DeviceFile& found = (*all)[static_cast<size_t>(device)];
  if (found.file < 0) found.file = makeFile("device memory", 0);
  return found;
}

size_t roundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Addresses that fault, of whole pages, with one more before and behind.
char* reserve(size_t bytes) {
  watchFaults();
  void* const base = mmap(nullptr, bytes + 2 * kPageBytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) fail("no addresses for " + std::to_string(bytes) + " bytes");
  return static_cast<char*>(base) + kPageBytes;
}

void map(char* at, size_t bytes, int file, size_t fileBytes) {
  const int where = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  if (mmap(at, bytes, PROT_READ | PROT_WRITE, where | MAP_FIXED, file,
           static_cast<off_t>(fileBytes)) == MAP_FAILED)
    fail("no memory for " + std::to_string(bytes) + " bytes");
}

}  // namespace

void forbidAround(const Allocation& allocation) {
  char* const end = allocation.mapping + allocation.mappedBytes;
  forbid(allocation.mapping, static_cast<size_t>(allocation.start - allocation.mapping));
  forbid(allocation.start + allocation.bytes,
         static_cast<size_t>(end - allocation.start) - allocation.bytes);
}

Allocation* findForeign(const ForeignFile& foreign, int device) {
  for (auto& [start, known] : table())
    if (known.kind == Kind::Foreign && known.device == device &&
        std::memcmp(&known.foreign, &foreign, sizeof foreign) == 0)
      return &known;
  return nullptr;
}

Allocation* findAllocation(const void* address) {
  auto above = table().upper_bound(static_cast<const char*>(address));
  if (above == table().begin()) return nullptr;
  Allocation& before = (--above)->second;
  return before.holds(address) ? &before : nullptr;
}

Allocation* allocationAt(const void* start) {
  const auto at = table().find(static_cast<const char*>(start));
  return at == table().end() ? nullptr : &at->second;
}

bool isKnown(const void* address, size_t bytes) {
  const auto* at = static_cast<const char*>(address);
  const char* const end = at + bytes;
  while (const Allocation* found = findAllocation(at)) {
    at = found->start + found->bytes;
    if (end <= at) return true;
    if (found->kind != Kind::Mapped) return false;  // only mappings may be side by side
  }
  return false;
}

Allocation mapPart(int file, size_t fileBytes, size_t mappedBytes, size_t insideBytes,
                   size_t bytes) {
  Allocation made;
  made.file = file;
  made.fileBytes = fileBytes;
  made.mappedBytes = mappedBytes;
  made.mapping = reserve(mappedBytes);
  made.start = made.mapping + insideBytes;
  made.bytes = bytes;
  map(made.mapping, mappedBytes, file, fileBytes);
  return made;
}

Allocation allocateFrom(int file, size_t& end, size_t bytes) {
  const size_t mapped = roundUp(bytes, kPageBytes);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(end + mapped)) != 0)
    fail("no memory for " + std::to_string(bytes) + " bytes");
  // At the end of its pages, so that what is behind it faults.
  const size_t inside = mapped - roundUp(bytes, kAllocationAlignment);
  Allocation made = mapPart(file, end, mapped, inside, bytes);
  end += mapped;
  std::memset(made.mapping, kFreshByte, mapped);
  forbidAround(made);
  return made;
}

Allocation& keep(Allocation allocation) { return table()[allocation.start] = allocation; }

cudaError_t allocateOn(int device, size_t bytes, void*& to) {
  deviceAt(device).isActive = true;
  if (!reserveBytes(device, bytes)) return cudaErrorMemoryAllocation;
  DeviceFile& from = fileOf(device);
  Allocation made = allocateFrom(from.file, from.end, bytes);
  made.device = device;
  to = keep(made).start;
  return cudaSuccess;
}

Allocation forget(Allocation& allocation) {
  const Allocation copy = allocation;
  table().erase(copy.start);
  return copy;
}

void unmap(const Allocation& allocation, bool isOwner) {
  allow(allocation.mapping, allocation.mappedBytes);
  mmap(allocation.mapping, allocation.mappedBytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (isOwner && allocation.file >= 0)
    fallocate(allocation.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(allocation.fileBytes), static_cast<off_t>(allocation.mappedBytes));
  rememberFreed(allocation);
}

bool reserveBytes(int device, size_t bytes) {
  size_t& used = deviceAt(device).usedBytes;
  if (bytes > bytesPerDevice() - used) return false;
  used += bytes;
  return true;
}

void returnBytes(int device, size_t bytes) { deviceAt(device).usedBytes -= bytes; }

}  // namespace tutti::emulation

using namespace tutti::emulation;

namespace {

cudaError_t allocateHost(void** to, size_t bytes, unsigned flags) {
  return call([&] {
    constexpr unsigned kKnown =
        cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if (to == nullptr || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    if (const cudaError_t bad = refuseUnsafe(); bad != cudaSuccess) return bad;
    *to = nullptr;
    if (bytes == 0) return cudaSuccess;
    size_t unused = 0;
    Allocation made = allocateFrom(-1, unused, bytes);
    made.kind = Kind::Host;
    made.device = currentDevice();
    made.flags = flags;
    *to = keep(made).start;
    return cudaSuccess;
  });
}

/// Takes what begins at `start` out of the table and waits for the device, as CUDA does before it
/// frees; no promise, hence no edge. Then its addresses fault.
template <class Accept>
cudaError_t freeSoon(void* start, Accept accept) {
  std::vector<WorkPointer> works;
  Allocation freed;
  const cudaError_t error = unfailingCall([&] {
    if (const cudaError_t bad = refuseUnsafe(); bad != cudaSuccess) return bad;
    Allocation* const found = allocationAt(start);
    if (found == nullptr || !accept(*found)) return cudaErrorInvalidValue;
    works = lastOf(found->isHost() ? -1 : found->device);
    freed = forget(*found);
    return cudaSuccess;
  });
  if (error != cudaSuccess) return error;
  {
    const LockedWait held;
    for (const WorkPointer& work : works) wait(*work, false);
  }
  return locked([&] {
    unmap(freed, true);
    if (!freed.isHost()) returnBytes(freed.device, freed.bytes);
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** to, size_t bytes) {
  noteAllocatingCall();
  return call([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bad = refuseUnsafe(); bad != cudaSuccess) return bad;
    *to = nullptr;
    if (bytes == 0) return cudaSuccess;
    return allocateOn(currentDevice(), bytes, *to);
  });
}

cudaError_t cudaFree(void* start) {
  noteAllocatingCall();
  if (start == nullptr) return call([] { return refuseUnsafe(); });
  return freeSoon(start, [](const Allocation& found) { return found.mayBeFreed(); });
}

/// Managed memory would move when a fiber touches it; the device's attribute says that there is
/// none.
cudaError_t cudaMallocManaged(void**, size_t, unsigned) { return remember(cudaErrorNotSupported); }

cudaError_t cudaMallocPitch(void** to, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr) return remember(cudaErrorInvalidValue);
  *pitch = roundUp(width, kAllocationAlignment);
  return cudaMalloc(to, *pitch * height);
}

cudaError_t cudaHostAlloc(void** to, size_t bytes, unsigned flags) {
  noteAllocatingCall();
  return allocateHost(to, bytes, flags);
}
cudaError_t cudaMallocHost(void** to, size_t bytes) {
  noteAllocatingCall();
  return allocateHost(to, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* start) {
  noteAllocatingCall();
  if (start == nullptr) return call([] { return refuseUnsafe(); });
  return freeSoon(start, [](const Allocation& found) { return found.kind == Kind::Host; });
}

cudaError_t cudaHostRegister(void* start, size_t bytes, unsigned flags) {
  noteAllocatingCall();
  return call([&] {
    constexpr unsigned kKnown = cudaHostRegisterPortable | cudaHostRegisterMapped;
    if (start == nullptr || bytes == 0 || (flags & ~(kKnown | 12u)) != 0)
      return cudaErrorInvalidValue;
    if ((flags & (cudaHostRegisterIoMemory | cudaHostRegisterReadOnly)) != 0)
      return cudaErrorNotSupported;
    auto* const first = static_cast<char*>(start);
    const auto above = table().upper_bound(first);
    const bool meetsNext = above != table().end() && above->first < first + bytes;
    if (meetsNext || findAllocation(first) != nullptr) return cudaErrorHostMemoryAlreadyRegistered;
    Allocation made;
    made.kind = Kind::Registered;
    made.device = currentDevice();
    made.start = first;
    made.bytes = bytes;
    made.flags = flags;
    keep(made);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* start) {
  noteAllocatingCall();
  return call([&] {
    if (start == nullptr) return cudaErrorInvalidValue;
    Allocation* const found = allocationAt(start);
    if (found == nullptr || found->kind != Kind::Registered)
      return cudaErrorHostMemoryNotRegistered;
    forget(*found);
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** to, void* host, unsigned flags) {
  return call([&] {
    if (to == nullptr || flags != 0) return cudaErrorInvalidValue;
    const Allocation* const found = findAllocation(host);
    if (found == nullptr || !found->isHost()) return cudaErrorInvalidValue;
    *to = host;  // one address space
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetFlags(unsigned* to, void* host) {
  return call([&] {
    const Allocation* const found = findAllocation(host);
    if (to == nullptr || found == nullptr || !found->isHost()) return cudaErrorInvalidValue;
    *to = found->flags | cudaHostAllocMapped;  // always, where addresses are one space
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* freeBytes, size_t* allBytes) {
  return call([&] {
    if (freeBytes == nullptr || allBytes == nullptr) return cudaErrorInvalidValue;
    *allBytes = bytesPerDevice();
    *freeBytes = bytesPerDevice() - deviceAt(currentDevice()).usedBytes;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* to, const void* address) {
  return call([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    cudaPointerAttributes made{};
    const Allocation* const found = findAllocation(address);
    auto* const same = const_cast<void*>(address);
    made.type = found == nullptr  ? cudaMemoryTypeUnregistered
                : found->isHost() ? cudaMemoryTypeHost
                                  : cudaMemoryTypeDevice;
    made.device = found == nullptr ? cudaInvalidDeviceId : found->device;
    made.devicePointer = found == nullptr ? nullptr : same;
    made.hostPointer = found == nullptr || found->isHost() ? same : nullptr;
    *to = made;
    return cudaSuccess;
  });
}

}  // extern "C"
