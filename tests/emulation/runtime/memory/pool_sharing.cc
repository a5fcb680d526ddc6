// Pools of other processes: the pool as a file, an allocation in it as where it is there.

#include <unistd.h>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"
#include "tests/emulation/runtime/memory/memory.h"
#include "tests/emulation/runtime/memory/pool.h"

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaMemPoolExportToShareableHandle(void* to, cudaMemPool_t pool,
                                               cudaMemAllocationHandleType type, unsigned flags) {
  return call([&] {
    if (to == nullptr || flags != 0 || !isPool(pool) || pool->isImported ||
        type != cudaMemHandleTypePosixFileDescriptor || pool->handleTypes != type)
      return cudaErrorInvalidValue;
    *static_cast<int*>(to) = dup(pool->file);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* to, void* handle,
                                                 cudaMemAllocationHandleType type, unsigned flags) {
  noteAllocatingCall();
  return call([&] {
    if (to == nullptr || flags != 0 || type != cudaMemHandleTypePosixFileDescriptor)
      return cudaErrorInvalidValue;
    const int file = dup(static_cast<int>(reinterpret_cast<intptr_t>(handle)));
    if (file < 0) return cudaErrorInvalidValue;
    auto* const pool = new CUmemPoolHandle_st;
    pool->device = currentDevice();
    pool->file = file;
    pool->isImported = true;
    *to = keepPool(pool);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* to, void* start) {
  return call([&] {
    const Allocation* const found = allocationAt(start);
    if (to == nullptr || found == nullptr || found->pool == nullptr || found->pool->isImported ||
        found->pool->handleTypes == cudaMemHandleTypeNone)
      return cudaErrorInvalidValue;
    writeHandle({.process = getpid(),
                 .device = placeOf(found->device),
                 .startBytes = found->fileBytes,
                 .mappedBytes = found->mappedBytes,
                 .insideBytes = size_t(found->start - found->mapping),
                 .bytes = found->bytes},
                *to);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolImportPointer(void** to, cudaMemPool_t pool,
                                     cudaMemPoolPtrExportData* data) {
  noteAllocatingCall();
  return call([&] {
    ForeignFile foreign;
    if (to == nullptr || data == nullptr || !isPool(pool) || !pool->isImported ||
        !readHandle(*data, foreign))
      return cudaErrorInvalidValue;
    Allocation made = mapPart(pool->file, foreign.startBytes, foreign.mappedBytes,
                              foreign.insideBytes, foreign.bytes);
    made.kind = Allocation::Kind::Pool;
    made.device = pool->device;
    made.pool = pool;
    *to = keep(made).start;
    return cudaSuccess;
  });
}

}  // extern "C"
