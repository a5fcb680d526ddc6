// Who may touch whose memory.

#include "tests/emulation/runtime/peer.h"

#include <set>
#include <utility>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"

namespace tutti::emulation {
namespace {

std::set<std::pair<int, int>>& apart() {
  static auto* const pairs = new std::set<std::pair<int, int>>;
  return *pairs;
}

}  // namespace

void forbidPeerAccess(int device, int peer) {
  call([&] {
    apart().insert({device, peer});
    return cudaSuccess;
  });
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
  return call([&] {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!isDevice(peer) || peer == currentDevice()) return cudaErrorInvalidDevice;
    if (apart().contains({currentDevice(), peer})) return cudaErrorPeerAccessUnsupported;
    const bool isNew = deviceAt(currentDevice()).peers.insert(peer).second;
    return isNew ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
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
      case cudaDevP2PAttrAccessSupported:
      case cudaDevP2PAttrNativeAtomicSupported:
      case cudaDevP2PAttrCudaArrayAccessSupported: *value = 1; return cudaSuccess;
      default: return cudaErrorInvalidValue;
    }
  });
}

}  // extern "C"
