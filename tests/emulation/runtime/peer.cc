// Who may touch whose memory.

#include "tests/emulation/runtime/peer.h"

#include <set>
#include <string>
#include <utility>

#include "tests/emulation/environment.h"
#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"
#include "tests/emulation/runtime/memory/memory.h"
#include "tests/emulation/runtime/memory/virtual_memory.h"

namespace tutti::emulation {
namespace {

constexpr size_t kLineBytes = 128;

/// By places in the machine: who does something, and to whose memory.
using Pairs = std::set<std::pair<int, int>>;

struct PeerTable {
  Pairs apart, byPcie, lying, lyingByCopies;
};

std::string checkStore(int device, void* word, bool releases);

PeerTable fromEnvironment() {
  PeerTable peers;
  for (const PeerRule& rule : environment().peers)
    for (const auto& pair :
         {std::pair(rule.first, rule.second), std::pair(rule.second, rule.first)}) {
      if (!rule.lies) peers.apart.insert(pair);
      if (rule.lies) peers.lying.insert(pair);
      if (rule.lies) peers.lyingByCopies.insert(pair);
    }
  if (!environment().peers.empty()) observeStores(checkStore);
  return peers;
}

PeerTable& peerTable() {
  static auto* const all = new PeerTable(fromEnvironment());
  return *all;
}

std::pair<int, int> places(int device, int peer) { return {placeOf(device), placeOf(peer)}; }

/// Of the device whose memory it is; below 0: it is the host's.
int homeOf(const Allocation& found) {
  if (found.isHost()) return -1;
  if (found.kind == Allocation::Kind::Foreign) return found.foreign.device;
  return found.kind == Allocation::Kind::Mapped ? placeOfMapped(found) : placeOf(found.device);
}

// One look-up for each word that a kernel stores: only where a pair is apart or lies.
std::string checkStore(int device, void* word, bool releases) {
  std::string wrong;
  locked([&] {
    const Allocation* const found = findAllocation(word);
    if (found == nullptr) return cudaSuccess;
    const std::pair pair(placeOf(device), homeOf(*found));
    if (peerTable().apart.contains(pair))
      wrong = "a store to memory of device " + std::to_string(pair.second) + ", to which device " +
              std::to_string(pair.first) + " has no peer access";
    char* const behind = static_cast<char*>(word) + kLineBytes;
    if (releases && peerTable().lying.contains(pair) && behind < found->start + found->bytes)
      *behind ^= 1;
    return cudaSuccess;
  });
  return wrong;
}

template <class Change>
void change(const Change& body) {
  call([&] {
    body(peerTable());
    return cudaSuccess;
  });
}

}  // namespace

void forbidPeerAccess(int device, int peer) {
  change([&](PeerTable& all) { all.apart.insert(places(device, peer)); });
  observeStores(checkStore);
}

void joinByPcie(int device, int peer) {
  change([&](PeerTable& all) {
    all.byPcie.insert(places(device, peer));
    all.byPcie.insert(places(peer, device));
  });
}

void corruptWrites(int device, int peer) {
  change([&](PeerTable& all) { all.lying.insert(places(device, peer)); });
  observeStores(checkStore);
}

void corruptCopies(int device, int peer) {
  change([&](PeerTable& all) { all.lyingByCopies.insert(places(device, peer)); });
}

void watchPeers() { peerTable(); }

bool mayReach(int device, int place) {
  return !peerTable().apart.contains({placeOf(device), place});
}

bool isCopyWrong(int device, const void* to, const void* from) {
  if (peerTable().lyingByCopies.empty()) return false;
  const Allocation* const found = findAllocation(to);
  const Allocation* const source = findAllocation(from);
  if (found == nullptr || found->isHost() || source == nullptr || source->isHost()) return false;
  const int home = homeOf(*found);
  const bool isOthers = found->kind == Allocation::Kind::Foreign || isImported(*found);
  return peerTable().lyingByCopies.contains({placeOf(device), home}) &&
         (placeOf(device) != home || isOthers);
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&] {
    if (can == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(device) || !isDevice(peer)) return cudaErrorInvalidDevice;
    *can = device != peer && mayReach(device, placeOf(peer));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  noteAllocatingCall();
  return call([&] {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!isDevice(peer)) return cudaErrorInvalidDevice;
    if (peer == currentDevice() || !mayReach(currentDevice(), placeOf(peer)))
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
        *value = mayReach(from, placeOf(to)) && !peerTable().byPcie.contains(places(from, to));
        return cudaSuccess;
      case cudaDevP2PAttrAccessSupported:
      case cudaDevP2PAttrCudaArrayAccessSupported:
        *value = mayReach(from, placeOf(to));
        return cudaSuccess;
      default: return cudaErrorInvalidValue;
    }
  });
}

}  // extern "C"
