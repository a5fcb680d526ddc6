// Memory pools: allocation in the order of a stream. An address is never used again, so a use of
// what was freed faults when the stream has come so far; what a pool holds is only counted.

#include "tests/emulation/runtime/memory/pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"
#include "tests/emulation/runtime/memory/memory.h"

namespace tutti::emulation {
namespace {

std::set<cudaMemPool_t>& pools() {
  static auto* const all = new std::set<cudaMemPool_t>;
  return *all;
}

cudaMemPool_t makePool(int device) {
  auto* const pool = new CUmemPoolHandle_st;
  pool->device = device;
  pool->file = makeFile("memory pool", 0);
  return keepPool(pool);
}

cudaMemPool_t defaultPool(int device) {
  Device& of = deviceAt(device);
  if (of.defaultPool == nullptr) {
    of.pool = of.defaultPool = makePool(device);
    of.defaultPool->isDefault = true;
  }
  return of.defaultPool;
}
cudaMemPool_t currentPool(int device) {
  defaultPool(device);
  return deviceAt(device).pool;
}

/// Gives back to the device what the pool holds and nobody uses, down to `keptBytes`.
void trim(cudaMemPool_t pool, uint64_t keptBytes) {
  const uint64_t left = std::min(pool->reservedBytes, std::max(keptBytes, pool->usedBytes));
  returnBytes(pool->device, pool->reservedBytes - left);
  pool->reservedBytes = left;
}

bool take(cudaMemPool_t pool, size_t bytes) {
  const uint64_t needed = pool->usedBytes + bytes;
  if (needed > pool->reservedBytes) {
    if (!reserveBytes(pool->device, needed - pool->reservedBytes)) return false;
    pool->reservedBytes = needed;
  }
  pool->usedBytes = needed;
  pool->usedHigh = std::max(pool->usedHigh, pool->usedBytes);
  pool->reservedHigh = std::max(pool->reservedHigh, pool->reservedBytes);
  return true;
}

cudaError_t allocate(void** to, size_t bytes, cudaMemPool_t pool, cudaStream_t handle) {
  cudaStream_t stream = nullptr;
  if (to == nullptr || !isPool(pool) || pool->isImported) return cudaErrorInvalidValue;
  if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
  if (stream->capture != nullptr) return refuseWaiting(stream);  // no memory nodes
  *to = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (!take(pool, bytes)) return cudaErrorMemoryAllocation;
  Allocation made = allocateFrom(pool->file, pool->end, bytes);
  made.kind = Allocation::Kind::Pool;
  made.device = pool->device;
  made.pool = pool;
  *to = keep(made).start;
  return submit(handle, makeTask(cudaGraphNodeTypeMemAlloc, nullptr));
}

/// The stream has come to where it was freed.
void finishFree(void* start) {
  Ignored ignored;
  std::lock_guard lock(runtimeMutex());
  Allocation* const found = allocationAt(start);
  if (found == nullptr) return;
  const Allocation freed = forget(*found);
  const bool isOwner = freed.pool == nullptr || !freed.pool->isImported;
  unmap(freed, isOwner);
  if (!isOwner) return;
  if (freed.pool == nullptr) {
    returnBytes(freed.device, freed.bytes);
    return;
  }
  freed.pool->usedBytes -= freed.bytes;
  // By its documentation at the next synchronisation; here at once, which nobody may rely on.
  trim(freed.pool, freed.pool->threshold);
}

uint64_t* counterOf(cudaMemPool_t pool, cudaMemPoolAttr which) {
  switch (which) {
    case cudaMemPoolAttrReleaseThreshold: return &pool->threshold;
    case cudaMemPoolAttrReservedMemCurrent: return &pool->reservedBytes;
    case cudaMemPoolAttrReservedMemHigh: return &pool->reservedHigh;
    case cudaMemPoolAttrUsedMemCurrent: return &pool->usedBytes;
    case cudaMemPoolAttrUsedMemHigh: return &pool->usedHigh;
    default: return nullptr;
  }
}

bool isReuse(cudaMemPoolAttr which) {
  return which >= cudaMemPoolReuseFollowEventDependencies &&
         which <= cudaMemPoolReuseAllowInternalDependencies;
}

}  // namespace

bool isPool(cudaMemPool_t pool) { return pools().count(pool) > 0; }

cudaMemPool_t keepPool(cudaMemPool_t pool) { return *pools().insert(pool).first; }

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaMallocAsync(void** to, size_t bytes, cudaStream_t handle) {
  return call([&]() -> cudaError_t {
    cudaStream_t stream = nullptr;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    return allocate(to, bytes, currentPool(stream->device), handle);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** to, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return call([&] { return allocate(to, bytes, pool, stream); });
}

/// Also of cudaMalloc()'s memory, which it frees without a wait for the device, but not in a
/// capture.
cudaError_t cudaFreeAsync(void* start, cudaStream_t handle) {
  return call([&]() -> cudaError_t {
    cudaStream_t stream = nullptr;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    Allocation* const found = allocationAt(start);
    if (found == nullptr || !found->mayBeFreed()) return cudaErrorInvalidValue;
    if (stream->capture != nullptr)
      return found->pool == nullptr ? cudaErrorInvalidValue : refuseWaiting(stream);
    found->isFreedAsync = true;
    return submit(handle, makeTask(cudaGraphNodeTypeMemFree, [start] { finishFree(start); }));
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* to, int device) {
  return call([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    *to = defaultPool(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* to, int device) {
  return call([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    *to = currentPool(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return call([&] {
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    if (!isPool(pool) || pool->device != device) return cudaErrorInvalidValue;
    defaultPool(device);
    deviceAt(device).pool = pool;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* to, const cudaMemPoolProps* props) {
  noteAllocatingCall();
  return call([&] {
    if (to == nullptr || props == nullptr || props->allocType != cudaMemAllocationTypePinned)
      return cudaErrorInvalidValue;
    if (props->location.type != cudaMemLocationTypeDevice) return cudaErrorNotSupported;
    if (!isDevice(props->location.id)) return cudaErrorInvalidDevice;
    if (props->handleTypes != cudaMemHandleTypeNone &&
        props->handleTypes != cudaMemHandleTypePosixFileDescriptor)
      return cudaErrorNotSupported;
    *to = makePool(props->location.id);
    (*to)->handleTypes = props->handleTypes;
    return cudaSuccess;
  });
}

/// What it still holds goes on; the pool is no more.
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  noteAllocatingCall();
  return call([&] {
    if (!isPool(pool) || pool->isDefault) return cudaErrorInvalidValue;
    pools().erase(pool);
    if (deviceAt(pool->device).pool == pool)
      deviceAt(pool->device).pool = deviceAt(pool->device).defaultPool;
    if (!pool->isImported) trim(pool, 0);
    pool->threshold = 0;  // and never deleted: its allocations may live
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keptBytes) {
  return call([&] {
    if (!isPool(pool)) return cudaErrorInvalidValue;
    trim(pool, keptBytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* to) {
  return call([&] {
    if (!isPool(pool) || to == nullptr) return cudaErrorInvalidValue;
    if (isReuse(which)) {
      *static_cast<int*>(to) = pool->reuse[which - 1];
    } else if (const uint64_t* const counter = counterOf(pool, which)) {
      *static_cast<uint64_t*>(to) = *counter;
    } else {
      return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

/// High water marks can only be set to zero, which begins them anew; the rest is not settable.
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  return call([&] {
    if (!isPool(pool) || value == nullptr) return cudaErrorInvalidValue;
    if (isReuse(which)) {
      pool->reuse[which - 1] = *static_cast<int*>(value) != 0;
      return cudaSuccess;
    }
    const uint64_t wanted = *static_cast<uint64_t*>(value);
    if (which == cudaMemPoolAttrReleaseThreshold) {
      pool->threshold = wanted;
    } else if (which == cudaMemPoolAttrUsedMemHigh && wanted == 0) {
      pool->usedHigh = pool->usedBytes;
    } else if (which == cudaMemPoolAttrReservedMemHigh && wanted == 0) {
      pool->reservedHigh = pool->reservedBytes;
    } else {
      return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* all, size_t count) {
  return call([&] {
    if (!isPool(pool) || (count > 0 && all == nullptr)) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      if (all[i].location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
      if (!isDevice(all[i].location.id)) return cudaErrorInvalidDevice;
      const bool isNone = all[i].flags == cudaMemAccessFlagsProtNone;
      if (all[i].location.id == pool->device && isNone) return cudaErrorInvalidValue;
      if (isNone)
        pool->readers.erase(all[i].location.id);
      else
        pool->readers.insert(all[i].location.id);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* to, cudaMemPool_t pool,
                                 cudaMemLocation* location) {
  return call([&] {
    if (to == nullptr || location == nullptr || !isPool(pool)) return cudaErrorInvalidValue;
    const bool may = location->id == pool->device || pool->readers.count(location->id) > 0;
    *to = may ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
    return cudaSuccess;
  });
}

}  // extern "C"
