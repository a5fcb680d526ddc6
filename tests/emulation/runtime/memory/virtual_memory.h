#pragma once

// Physical memory behind handles, and reserved addresses where it is mapped: the driver's cuMem
// functions.

#include <cuda.h>

#include <map>
#include <string>

#include "tests/emulation/runtime/memory/memory.h"

namespace tutti::emulation {

constexpr size_t kGranularity = 2 << 20;

/// The name of a file says that it is physical memory, and of which device, by its place.
inline const std::string kPhysicalName = "tutti-physical-";

struct MulticastTable;

/// What a CUmemGenericAllocationHandle is the address of.
struct Physical {
  int references = 1;  // of whoever has the handle, of mappings and of multicast bindings
  int file = -1;
  size_t bytes = 0;
  CUmemAllocationProp properties{};
  int place = 0;  // of its device in the machine
  bool isImported = false;
  MulticastTable* multicast = nullptr;  // of a multicast object
};

// Under the runtime's lock.

Physical* physicalOf(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle keepPhysical(Physical* physical);
void dropPhysical(Physical* physical);
/// Where it is mapped in this process, readable and writable, so many bytes from its start on; null
/// where it is not.
char* mappedAt(const Physical* physical, size_t fromBytes, size_t bytes);
/// What another process, or an exported handle, has given.
bool isImported(const Allocation& allocation);
/// The place in the machine of the device whose memory it is; of what is mapped.
int placeOfMapped(const Allocation& allocation);
inline bool isGranular(size_t bytes) { return bytes % kGranularity == 0; }

}  // namespace tutti::emulation
