#pragma once

// All memory that CUDA knows: which ranges are whose. Device memory is a file in memory per device,
// so that other processes can map it. An address is never used twice, and what is freed faults.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tests/emulation/runtime/foreign.h"

namespace tutti::emulation {

constexpr size_t kPageBytes = 4096;
constexpr size_t kAllocationAlignment = 512;

struct Allocation {
  enum class Kind { Device, Foreign, Pool, Mapped, Host, Registered };
  Kind kind = Kind::Device;
  int device = 0;
  char* start = nullptr;
  size_t bytes = 0;
  char* mapping = nullptr;  // whole pages; those before and behind fault
  size_t mappedBytes = 0;
  int file = -1;  // where the pages are, from so many bytes on
  size_t fileBytes = 0;
  unsigned flags = 0;  // of host memory
  int opens = 0;       // of foreign memory
  ForeignFile foreign;
  cudaMemPool_t pool = nullptr;
  bool isFreedAsync = false;  // by cudaFreeAsync(), which the stream has perhaps not reached

  bool mayBeFreed() const { return (kind == Kind::Device || kind == Kind::Pool) && !isFreedAsync; }

  bool isHost() const { return kind == Kind::Host || kind == Kind::Registered; }
  bool holds(const void* address) const { return address >= start && address < start + bytes; }
};

// Under the runtime's lock.

/// What holds the address, or null.
Allocation* findAllocation(const void* address);
/// What begins there, or null.
Allocation* allocationAt(const void* start);
/// Whether all of the range is memory that CUDA knows.
bool isKnown(const void* address, size_t bytes);

/// A part of a file that grows: `end` moves. Fresh and between pages that fault.
Allocation allocateFrom(int file, size_t& end, size_t bytes);
/// Maps what another process, or another handle, has.
Allocation mapPart(int file, size_t fileBytes, size_t mappedBytes, size_t insideBytes,
                   size_t bytes);
Allocation& keep(Allocation allocation);
/// Memory of the device, in `to`; cudaErrorMemoryAllocation where it does not fit.
cudaError_t allocateOn(int device, size_t bytes, void*& to);
/// Takes it out of the table; the pages stay as they are.
Allocation forget(Allocation& allocation);
/// Its pages fault from now on; those of a file that is its own are given back.
void unmap(const Allocation& allocation, bool isOwner);

/// What is mapped but not allocated is forbidden.
void forbidAround(const Allocation& allocation);
/// Foreign memory that is open on the device already, or null.
Allocation* findForeign(const ForeignFile& foreign, int device);

/// Counts what a device's memory holds; false where it does not fit.
bool reserveBytes(int device, size_t bytes);
void returnBytes(int device, size_t bytes);

}  // namespace tutti::emulation
