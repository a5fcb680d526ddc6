// Device memory of other processes.

#include <unistd.h>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"
#include "tests/emulation/runtime/memory/memory.h"
#include "tests/emulation/runtime/peer.h"

using namespace tutti::emulation;
using Kind = Allocation::Kind;

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  return call([&] {
    const Allocation* const found = findAllocation(address);
    if (handle == nullptr || found == nullptr || found->kind != Kind::Device)
      return cudaErrorInvalidValue;
    writeHandle({.process = getpid(),
                 .file = found->file,
                 .device = placeOf(found->device),
                 .startBytes = found->fileBytes,
                 .mappedBytes = found->mappedBytes,
                 .insideBytes = size_t(found->start - found->mapping),
                 .bytes = found->bytes},
                *handle);
    return cudaSuccess;
  });
}

/// The second time it is opened here it is the same address.
cudaError_t cudaIpcOpenMemHandle(void** to, cudaIpcMemHandle_t handle, unsigned flags) {
  noteAllocatingCall();
  return call([&] {
    ForeignFile foreign;
    if (to == nullptr || flags != cudaIpcMemLazyEnablePeerAccess || !readHandle(handle, foreign))
      return cudaErrorInvalidValue;
    if (foreign.process == getpid()) return cudaErrorDeviceUninitialized;
    if (!mayReach(currentDevice(), foreign.device)) return cudaErrorPeerAccessUnsupported;
    if (Allocation* const known = findForeign(foreign, currentDevice())) {
      ++known->opens;
      *to = known->start;
      return cudaSuccess;
    }
    const int file = openForeign(foreign);
    if (file < 0) return cudaErrorMapBufferObjectFailed;
    // What was freed meanwhile is a hole.
    const auto from = static_cast<off_t>(foreign.startBytes);
    if (lseek(file, from, SEEK_HOLE) == from) return close(file), cudaErrorMapBufferObjectFailed;
    Allocation made =
        mapPart(file, foreign.startBytes, foreign.mappedBytes, foreign.insideBytes, foreign.bytes);
    close(file);
    forbidAround(made);
    made.kind = Kind::Foreign;
    made.device = currentDevice();
    made.file = -1;
    made.opens = 1;
    made.foreign = foreign;
    *to = keep(made).start;
    return cudaSuccess;
  });
}

cudaError_t cudaIpcCloseMemHandle(void* start) {
  noteAllocatingCall();
  return unfailingCall([&] {
    Allocation* const found = allocationAt(start);
    if (found == nullptr || found->kind != Kind::Foreign) return cudaErrorInvalidValue;
    if (--found->opens == 0) unmap(forget(*found), false);
    return cudaSuccess;
  });
}

}  // extern "C"
