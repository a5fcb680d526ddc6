// Who may touch whose memory.

#include "tests/emulation/runtime/peer.h"

#include <set>
#include <utility>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"
#include "tests/emulation/runtime/memory/memory.h"
#include "tests/emulation/runtime/memory/virtual_memory.h"

namespace tutti::emulation {
namespace {

using Pairs = std::set<std::pair<int, int>>;

Pairs& apart() {
  static auto* const pairs = new Pairs;
  return *pairs;
}
Pairs& joinedByPcie() {
  static auto* const pairs = new Pairs;
  return *pairs;
}
Pairs& lying() {
  static auto* const pairs = new Pairs;
  return *pairs;
}

Pairs& lyingByCopies() {
  static auto* const pairs = new Pairs;
  return *pairs;
}

constexpr size_t kLineBytes = 128;

void corrupt(int device, void* word) {
  locked([&] {
    const Allocation* const found = findAllocation(word);
    char* const behind = static_cast<char*>(word) + kLineBytes;
    if (found != nullptr && lying().contains({device, found->device}) &&
        behind < found->start + found->bytes)
      *behind ^= 1;
    return cudaSuccess;
  });
}

}  // namespace

void forbidPeerAccess(int device, int peer) {
  call([&] {
    apart().insert({device, peer});
    return cudaSuccess;
  });
}

void joinByPcie(int device, int peer) {
  call([&] {
    joinedByPcie().insert({device, peer});
    joinedByPcie().insert({peer, device});
    return cudaSuccess;
  });
}

void corruptWrites(int device, int peer) {
  call([&] {
    lying().insert({device, peer});
    return cudaSuccess;
  });
  observeReleases(corrupt);
}

void corruptCopies(int device, int peer) {
  call([&] {
    lyingByCopies().insert({device, peer});
    return cudaSuccess;
  });
}

bool isCopyWrong(int device, const void* address) {
  if (lyingByCopies().empty()) return false;
  const Allocation* const found = findAllocation(address);
  if (found == nullptr || found->isHost()) return false;
  const bool isForeign = found->kind == Allocation::Kind::Foreign;
  const int home = isForeign ? deviceOfPlace(found->foreign.device).value_or(-1) : found->device;
  return lyingByCopies().contains({device, home}) &&
         (device != home || isForeign || isImported(*found));
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&] {
    if (can == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(device) || !isDevice(peer)) return cudaErrorInvalidDevice;
    *can = device != peer && !apart().contains({device, peer});
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  noteAllocatingCall();
  return call([&] {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!isDevice(peer)) return cudaErrorInvalidDevice;
    if (peer == currentDevice() || apart().contains({currentDevice(), peer}))
      return cudaErrorPeerAccessUnsupported;
    const bool isNew = deviceAt(currentDevice()).peers.insert(peer).second;
    return isNew ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  noteAllocatingCall();
  return call([&] {
    if (!isDevice(peer)) return cudaErrorInvalidDevice;
    const bool was = deviceAt(currentDevice()).peers.erase(peer) > 0;
    return was ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr which, int from, int to) {
  return call([&] {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(from) || !isDevice(to) || from == to) return cudaErrorInvalidDevice;
    switch (which) {
      case cudaDevP2PAttrPerformanceRank: *value = 0; return cudaSuccess;
      case cudaDevP2PAttrNativeAtomicSupported:
        *value = !joinedByPcie().contains({from, to});
        return cudaSuccess;
      case cudaDevP2PAttrAccessSupported:
      case cudaDevP2PAttrCudaArrayAccessSupported: *value = 1; return cudaSuccess;
      default: return cudaErrorInvalidValue;
    }
  });
}

}  // extern "C"
