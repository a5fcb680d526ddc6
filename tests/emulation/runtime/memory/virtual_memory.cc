#include "tests/emulation/runtime/memory/virtual_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <set>
#include <string>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/faults.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"
#include "tests/emulation/runtime/memory/multicast.h"
#include "tests/emulation/runtime/peer.h"

namespace tutti::emulation {
namespace {

struct Mapping {
  Physical* physical = nullptr;
  std::map<int, CUmemAccess_flags> access;  // by device
};

std::set<Physical*>& physicals() {
  static auto* const all = new std::set<Physical*>;
  return *all;
}
std::map<char*, size_t>& reservations() {
  static auto* const all = new std::map<char*, size_t>;
  return *all;
}
std::map<char*, Mapping>& mappings() {
  static auto* const all = new std::map<char*, Mapping>;
  return *all;
}

char* pointer(CUdeviceptr address) { return reinterpret_cast<char*>(address); }

bool isReserved(char* start, size_t bytes) {
  auto above = reservations().upper_bound(start);
  if (above == reservations().begin()) return false;
  const auto& [first, reserved] = *--above;
  return start + bytes <= first + reserved;
}

/// Those of which the range has a part.
std::vector<char*> mappingsIn(char* start, size_t bytes) {
  std::vector<char*> found;
  for (const auto& [first, mapping] : mappings())
    if (first < start + bytes && start < first + allocationAt(first)->bytes) found.push_back(first);
  return found;
}
bool touchesMapping(char* start, size_t bytes) { return !mappingsIn(start, bytes).empty(); }

/// The mappings that make up the range; none where they do not do so exactly.
std::vector<char*> mappingsOf(char* start, size_t bytes) {
  std::vector<char*> found;
  char* at = start;
  while (at < start + bytes && mappings().count(at) > 0) {
    found.push_back(at);
    at += allocationAt(at)->bytes;
  }
  if (at != start + bytes) found.clear();
  return found;
}

int protectionOf(const Mapping& mapping) {
  int protection = PROT_NONE;
  for (const auto& [device, flags] : mapping.access) {
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection |= PROT_READ | PROT_WRITE;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ) protection |= PROT_READ;
  }
  return protection;
}

cudaError_t check(const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return cudaErrorInvalidValue;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return cudaErrorNotSupported;
  if (!isDevice(properties->location.id)) return cudaErrorInvalidDevice;
  constexpr int kKnown = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return (properties->requestedHandleTypes & ~kKnown) == 0 ? cudaSuccess : cudaErrorNotSupported;
}

void fillFresh(int file, size_t bytes) {
  void* const all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (all == MAP_FAILED) fail("no memory for " + std::to_string(bytes) + " bytes");
  std::memset(all, kFreshByte, bytes);
  munmap(all, bytes);
}

void map(char* at, size_t bytes, Physical* physical) {
  mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, 0);
  Allocation made;
  made.kind = Allocation::Kind::Mapped;
  made.device = physical->properties.location.id;
  made.start = made.mapping = at;
  made.bytes = made.mappedBytes = bytes;
  keep(made);
  mappings()[at].physical = physical;
  ++physical->references;
  if (physical->multicast != nullptr) addMulticastMapping(at, bytes, physical->multicast);
}

}  // namespace

Physical* physicalOf(CUmemGenericAllocationHandle handle) {
  auto* const physical = reinterpret_cast<Physical*>(handle);
  return physicals().count(physical) > 0 ? physical : nullptr;
}

CUmemGenericAllocationHandle keepPhysical(Physical* physical) {
  physicals().insert(physical);
  return reinterpret_cast<CUmemGenericAllocationHandle>(physical);
}

void dropPhysical(Physical* physical) {
  if (--physical->references > 0) return;
  physicals().erase(physical);
  if (!physical->isImported && physical->multicast == nullptr)
    returnBytes(physical->properties.location.id, physical->bytes);
  if (physical->multicast != nullptr) closeMulticast(physical->multicast);
  close(physical->file);
  delete physical;
}

char* mappedAt(const Physical* physical, size_t fromBytes, size_t bytes) {
  for (const auto& [start, mapping] : mappings())
    if (mapping.physical == physical && fromBytes + bytes <= allocationAt(start)->bytes &&
        protectionOf(mapping) == (PROT_READ | PROT_WRITE))
      return start + fromBytes;
  return nullptr;
}

bool isImported(const Allocation& allocation) {
  const auto mapped = mappings().find(allocation.start);
  return mapped != mappings().end() && mapped->second.physical->isImported;
}

int placeOfMapped(const Allocation& allocation) {
  return mappings().at(allocation.start).physical->place;
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* to, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  return driverCall([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bad = check(properties); bad != cudaSuccess) return bad;
    *to = kGranularity;
    return cudaSuccess;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* to, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  noteAllocatingCall();
  return driverCall([&] {
    if (to == nullptr || flags != 0 || bytes == 0 || !isGranular(bytes))
      return cudaErrorInvalidValue;
    if (const cudaError_t bad = check(properties); bad != cudaSuccess) return bad;
    if (const cudaError_t bad = refuseUnsafe(); bad != cudaSuccess) return bad;
    const int device = properties->location.id;
    if (!reserveBytes(device, bytes)) return cudaErrorMemoryAllocation;
    auto* const made = new Physical;
    made->file = makeFile((kPhysicalName + std::to_string(placeOf(device))).c_str(), bytes);
    made->bytes = bytes;
    made->properties = *properties;
    made->place = placeOf(device);
    fillFresh(made->file, bytes);
    *to = keepPhysical(made);
    return cudaSuccess;
  });
}

/// The memory lives on where it is mapped.
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  noteAllocatingCall();
  return driverCall([&] {
    Physical* const physical = physicalOf(handle);
    if (physical == nullptr) return cudaErrorInvalidValue;
    dropPhysical(physical);
    return cudaSuccess;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* to, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  noteAllocatingCall();
  return driverCall([&] {
    if (to == nullptr || flags != 0 || bytes == 0 || bytes % kPageBytes != 0 ||
        (alignment & (alignment - 1)) != 0)
      return cudaErrorInvalidValue;
    watchFaults();
    const size_t unit = std::max(alignment, kGranularity);
    // With at least a page behind it that faults.
    void* const all = mmap(nullptr, bytes + 2 * unit, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return cudaErrorMemoryAllocation;
    *to = (reinterpret_cast<CUdeviceptr>(all) + unit - 1) / unit * unit;
    reservations()[pointer(*to)] = bytes;
    return cudaSuccess;
  });
}

/// The addresses are never used again.
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  noteAllocatingCall();
  return driverCall([&] {
    const auto at = reservations().find(pointer(address));
    if (at == reservations().end() || at->second != bytes ||
        touchesMapping(pointer(address), bytes))
      return cudaErrorInvalidValue;
    reservations().erase(at);
    return cudaSuccess;
  });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  noteAllocatingCall();
  waitForTeam(handle);
  return driverCall([&] {
    Physical* const physical = physicalOf(handle);
    char* const at = pointer(address);
    if (physical == nullptr || flags != 0 || bytes == 0 || !isGranular(address))
      return cudaErrorInvalidValue;
    if (offset != 0 || bytes != physical->bytes) return cudaErrorNotSupported;  // all or nothing
    if (!isReserved(at, bytes) || touchesMapping(at, bytes)) return cudaErrorInvalidValue;
    map(at, bytes, physical);
    return cudaSuccess;
  });
}

/// Where nothing is mapped there is nothing to do, and a mapping goes as a whole.
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  noteAllocatingCall();
  return driverCall([&] {
    char* const at = pointer(address);
    if (mappingsOf(at, bytes).empty() && !isReserved(at, bytes)) return cudaErrorInvalidValue;
    const auto all = mappingsIn(at, bytes);
    for (char* start : all)
      if (start < at || start + allocationAt(start)->bytes > at + bytes)
        return cudaErrorInvalidValue;
    for (char* start : all) {
      Physical* const physical = mappings().at(start).physical;
      if (physical->multicast != nullptr) removeMulticastMapping(start);
      mappings().erase(start);
      unmap(forget(*allocationAt(start)), false);
      dropPhysical(physical);
    }
    return cudaSuccess;
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* all,
                        size_t count) {
  noteAllocatingCall();
  return driverCall([&] {
    const auto ranges = mappingsOf(pointer(address), bytes);
    if (ranges.empty() || all == nullptr || count == 0) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i)
      if (all[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !isDevice(all[i].location.id))
        return cudaErrorInvalidValue;
    for (char* start : ranges)
      for (size_t i = 0; i < count; ++i)
        if (!mayReach(all[i].location.id, mappings().at(start).physical->place))
          return cudaErrorInvalidDevice;
    for (char* start : ranges) {
      Mapping& mapping = mappings().at(start);
      for (size_t i = 0; i < count; ++i) mapping.access[all[i].location.id] = all[i].flags;
      // Nothing is behind the addresses of a multicast object but its replicas.
      if (mapping.physical->multicast == nullptr)
        mprotect(start, allocationAt(start)->bytes, protectionOf(mapping));
    }
    return cudaSuccess;
  });
}

CUresult cuMemGetAccess(unsigned long long* to, const CUmemLocation* location,
                        CUdeviceptr address) {
  return driverCall([&] {
    const Allocation* const found = findAllocation(pointer(address));
    if (to == nullptr || location == nullptr || found == nullptr ||
        mappings().count(found->start) == 0)
      return cudaErrorInvalidValue;
    if (!isDevice(location->id)) return cudaErrorInvalidDevice;
    const auto& access = mappings().at(found->start).access;
    const auto at = access.find(location->id);
    *to = at == access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : at->second;
    return cudaSuccess;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* to,
                                                CUmemGenericAllocationHandle handle) {
  return driverCall([&] {
    const Physical* const physical = physicalOf(handle);
    if (to == nullptr || physical == nullptr) return cudaErrorInvalidValue;
    *to = physical->properties;
    return cudaSuccess;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* to, void* address) {
  return driverCall([&] {
    const Allocation* const found = findAllocation(address);
    if (to == nullptr || found == nullptr || mappings().count(found->start) == 0)
      return cudaErrorInvalidValue;
    Physical* const physical = mappings().at(found->start).physical;
    ++physical->references;
    *to = reinterpret_cast<CUmemGenericAllocationHandle>(physical);
    return cudaSuccess;
  });
}

}  // extern "C"
