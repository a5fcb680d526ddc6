// Copies. What "asynchronous" means for each pair of memories is the page "API
// synchronization behavior" of the CUDA runtime's documentation: pageable memory is staged, and
// only some calls wait for the device.

#include "tests/emulation/runtime/copy.h"

#include <cstring>
#include <optional>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/memory.h"
#include "tests/emulation/runtime/peer.h"

namespace tutti::emulation {
namespace {

bool isPageable(const void* address) { return findAllocation(address) == nullptr; }

Rows rowsOf(const cudaPitchedPtr& base, const cudaPos& at) {
  return {static_cast<char*>(base.ptr) + at.z * base.pitch * base.ysize + at.y * base.pitch + at.x,
          base.pitch, base.pitch * base.ysize};
}

/// Up to four aligned words, each whole, as copy engines write them: a word that a stream waits for
/// may be written by a copy. False where it is no such copy.
bool copiedByWords(char* to, const char* from, const cudaExtent& extent) {
  const auto isAligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 4 == 0; };
  const size_t bytes = extent.width;
  if (bytes == 0 || bytes > 16 || bytes % 4 != 0 || extent.height * extent.depth != 1 ||
      !isAligned(to) || !isAligned(from) || isForbidden(to, bytes) || isForbidden(from, bytes))
    return false;
  for (size_t i = 0; i < bytes; i += 4) {
    const uint32_t word = atomicLoad(reinterpret_cast<const uint32_t*>(from + i), __ATOMIC_RELAXED);
    atomicStore(reinterpret_cast<uint32_t*>(to + i), word, __ATOMIC_RELEASE);
  }
  return true;
}

void copyRows(const Rows& to, const Rows& from, const cudaExtent& extent) {
  if (copiedByWords(to.first, from.first, extent)) return;
  for (size_t z = 0; z < extent.depth; ++z)
    for (size_t y = 0; y < extent.height; ++y) {
      char* const target = to.first + z * to.slice + y * to.pitch;
      const char* const source = from.first + z * from.slice + y * from.pitch;
      touchRead(source, extent.width, "cudaMemcpy");
      touchWrite(target, extent.width, "cudaMemcpy");
      std::memcpy(target, source, extent.width);
    }
}

Side sideOf(cudaMemcpyKind kind, bool isTarget) {
  switch (kind) {
    case cudaMemcpyHostToHost: return Side::Host;
    case cudaMemcpyHostToDevice: return isTarget ? Side::Device : Side::Host;
    case cudaMemcpyDeviceToHost: return isTarget ? Side::Host : Side::Device;
    case cudaMemcpyDeviceToDevice: return Side::Device;
    default: return Side::Any;
  }
}

cudaError_t check(const cudaMemcpy3DParms& copy) {
  if (copy.srcArray != nullptr || copy.dstArray != nullptr) return cudaErrorNotSupported;
  if (copy.kind < cudaMemcpyHostToHost || copy.kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  if (isEmpty(copy.extent)) return cudaSuccess;
  for (const cudaPitchedPtr& side : {copy.srcPtr, copy.dstPtr})
    if (copy.extent.width > side.pitch && copy.extent.height * copy.extent.depth > 1)
      return cudaErrorInvalidPitchValue;
  const bool isGood =
      isRight(rowsOf(copy.dstPtr, copy.dstPos), copy.extent, sideOf(copy.kind, true)) &&
      isRight(rowsOf(copy.srcPtr, copy.srcPos), copy.extent, sideOf(copy.kind, false));
  return isGood ? cudaSuccess : cudaErrorInvalidValue;
}

/// The bytes of the source, packed, as they are now.
std::shared_ptr<char[]> stage(const cudaMemcpy3DParms& copy) {
  const cudaExtent extent = copy.extent;
  const auto forgetUnseen = [](const char* bytes) {
    Ignored ignored;  // who frees it need not have waited for who reads it
    delete[] bytes;
  };
  std::shared_ptr<char[]> staged(new char[extent.width * extent.height * extent.depth],
                                 forgetUnseen);
  const Rows packed{staged.get(), extent.width, extent.width * extent.height};
  copyRows(packed, rowsOf(copy.srcPtr, copy.srcPos), extent);
  return staged;
}

/// Everything that a copy call does.
cudaError_t run(const cudaMemcpy3DParms& copy, const Order& order) {
  std::vector<WorkPointer> before, all;
  bool isStaged = false, isNothing = false, isOfPages = false;
  cudaError_t error = call([&]() -> cudaError_t {
    cudaStream_t stream = nullptr;
    if (const cudaError_t bad = findStream(order.stream, stream); bad != cudaSuccess) return bad;
    if (!order.isAsync) {
      if (const cudaError_t bad = refuseImplicit(stream); bad != cudaSuccess) return bad;
      if (const cudaError_t bad = refuseUnsafe(); bad != cudaSuccess) return bad;
    }
    if (const cudaError_t bad = check(copy); bad != cudaSuccess) return bad;
    isNothing = isEmpty(copy.extent);
    if (isNothing) return cudaSuccess;
    isStaged = isPageable(copy.srcPtr.ptr) && isDeviceMemory(copy.dstPtr.ptr) &&
               stream->capture == nullptr;
    isOfPages = isPageable(copy.srcPtr.ptr) || isPageable(copy.dstPtr.ptr);
    // An asynchronous copy may wait too, and does where that holds others up.
    if (isStaged && (!order.isAsync || environment().isWaitingLocked) && stream->last != nullptr)
      before.push_back(stream->last);
    return cudaSuccess;
  });
  if (error != cudaSuccess || isNothing) return error;
  std::optional<LockedWait> held;
  if (isOfPages) held.emplace();
  for (const WorkPointer& work : before) wait(*work);
  std::shared_ptr<char[]> staged;
  if (isStaged) staged = stage(copy);
  error = call([&]() -> cudaError_t {
    TaskPointer task;
    if (const cudaError_t bad = makeCopyTask(copy, task); bad != cudaSuccess) return bad;
    if (isStaged) {
      const Rows from{staged.get(), copy.extent.width, copy.extent.width * copy.extent.height};
      task =
          makeTask(cudaGraphNodeTypeMemcpy, [staged, from, to = rowsOf(copy.dstPtr, copy.dstPos),
                                             extent = copy.extent] { copyRows(to, from, extent); });
    }
    cudaStream_t stream = nullptr;
    findStream(order.stream, stream);
    const Rows to = rowsOf(copy.dstPtr, copy.dstPos);
    if (copy.extent.width > 16 && stream->capture == nullptr &&
        isCopyWrong(stream->device, to.first, copy.srcPtr.ptr))
      task = makeTask(cudaGraphNodeTypeMemcpy, [right = task->body, to] {
        right();
        *to.first ^= 1;
      });
    if (const cudaError_t bad = submit(order.stream, task); bad != cudaSuccess) return bad;
    const bool toDevice = isDeviceMemory(copy.dstPtr.ptr);
    const bool fromDevice = isDeviceMemory(copy.srcPtr.ptr);
    const bool isPinned = !isPageable(copy.srcPtr.ptr) && !isPageable(copy.dstPtr.ptr);
    const bool returnsAtOnce = isStaged || (toDevice && fromDevice) ||
                               (order.isAsync && isPinned && (toDevice || fromDevice));
    if (!returnsAtOnce && stream->capture == nullptr) all.push_back(stream->last);
    return cudaSuccess;
  });
  if (error != cudaSuccess) return error;
  for (const WorkPointer& work : all) wait(*work);
  return remember(faultOf(currentDevice()));
}

cudaMemcpy3DParms flatCopy(void* to, size_t toPitch, const void* from, size_t fromPitch,
                           size_t width, size_t height, cudaMemcpyKind kind) {
  cudaMemcpy3DParms copy = plainCopy(to, from, width, kind);
  copy.dstPtr.pitch = toPitch;
  copy.srcPtr.pitch = fromPitch;
  copy.dstPtr.ysize = copy.srcPtr.ysize = copy.extent.height = height;
  return copy;
}

}  // namespace

bool isRight(const Rows& rows, const cudaExtent& extent, Side side) {
  if (rows.first == nullptr) return false;
  bool right = true;
  forRows(rows, extent, [&](const char* row) {
    const Allocation* const found = findAllocation(row);
    if (found == nullptr) {
      right &= side != Side::Device;
    } else {
      right &= isKnown(row, extent.width);
      right &= side != Side::Host || found->isHost();
    }
  });
  return right;
}

bool isDeviceMemory(const void* address) {
  const Allocation* const found = findAllocation(address);
  return found != nullptr && !found->isHost();
}

cudaMemcpy3DParms plainCopy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  cudaMemcpy3DParms copy{};
  copy.dstPtr = {to, bytes, bytes, 1};
  copy.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
  copy.extent = {bytes, 1, 1};
  copy.kind = kind;
  return copy;
}

cudaError_t makeCopyTask(const cudaMemcpy3DParms& copy, TaskPointer& task) {
  if (const cudaError_t bad = check(copy); bad != cudaSuccess) return bad;
  auto made = std::make_shared<Task>();
  made->type = cudaGraphNodeTypeMemcpy;
  made->copy = copy;
  made->body = [copy] {
    copyRows(rowsOf(copy.dstPtr, copy.dstPos), rowsOf(copy.srcPtr, copy.srcPos), copy.extent);
  };
  task = made;
  return cudaSuccess;
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return run(plainCopy(to, from, bytes, kind), {.isAsync = false});
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return run(plainCopy(to, from, bytes, kind), {.stream = stream});
}
cudaError_t cudaMemcpy2D(void* to, size_t toPitch, const void* from, size_t fromPitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
  return run(flatCopy(to, toPitch, from, fromPitch, width, height, kind), {.isAsync = false});
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t toPitch, const void* from, size_t fromPitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return run(flatCopy(to, toPitch, from, fromPitch, width, height, kind), {.stream = stream});
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* copy) {
  return copy == nullptr ? remember(cudaErrorInvalidValue) : run(*copy, {.isAsync = false});
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* copy, cudaStream_t stream) {
  return copy == nullptr ? remember(cudaErrorInvalidValue) : run(*copy, {.stream = stream});
}

/// Without peer access it goes through the host, which nobody sees.
cudaError_t cudaMemcpyPeerAsync(void* to, int toDevice, const void* from, int fromDevice,
                                size_t bytes, cudaStream_t stream) {
  if (!isDevice(toDevice) || !isDevice(fromDevice)) return remember(cudaErrorInvalidDevice);
  return run(plainCopy(to, from, bytes, cudaMemcpyDeviceToDevice), {.stream = stream});
}
cudaError_t cudaMemcpyPeer(void* to, int toDevice, const void* from, int fromDevice, size_t bytes) {
  if (!isDevice(toDevice) || !isDevice(fromDevice)) return remember(cudaErrorInvalidDevice);
  return run(plainCopy(to, from, bytes, cudaMemcpyDeviceToDevice), {.isAsync = false});
}

}  // extern "C"
