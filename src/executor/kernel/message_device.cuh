#pragma once

// A message in its slot: waiting until it is there, or until its slot is free, and telling the
// peer. By one thread each.

#include "src/executor/kernel/pack_device.cuh"

namespace tutti::executor::kernel {

using transports::p2p::kLine;
using transports::p2p::MessageHeader;

TUTTI_DEVICE unsigned char* slotOf(const KernelLane& lane, unsigned char* slots, uint32_t message,
                                   uint64_t stride) {
  return slots + ((message - 1) & (lane.all.slotCount - 1)) * stride;
}

TUTTI_DEVICE void checkHeader(KernelLane& lane, int peer, uint32_t bytes, Theirs theirs) {
  if (theirs.callHash != lane.callHash || theirs.operation != lane.operation ||
      theirs.bytes != bytes)
    giveUp(lane, StopReason::Mismatch, peer, bytes, theirs);
  else
    atomicAdd(&lane.shared->bytesArrived, bytes);
}

/// Waits until the message is there, or its header in LL, and checks that it is one of this call,
/// of `bytes`.
template <Wire kWire>
TUTTI_DEVICE void awaitHeader(KernelLane& lane, const unsigned char* slot, uint32_t message,
                              int peer, uint32_t bytes) {
  if constexpr (kWire == Wire::Simple) {
    const auto* const header = reinterpret_cast<const MessageHeader*>(slot);
    if (!awaitEqual(lane, &header->sequence, message, peer)) return;
    checkHeader(lane, peer, bytes, {header->callHash, header->operation, header->bytes});
  } else {
    const uint4 words = awaitWords(lane, slot, 2, message, peer);
    if (!lane.hasFailed) checkHeader(lane, peer, bytes, {words.x, words.y, words.z});
  }
}

/// Waits until the slot is free. The header of LL is on its way at once, for it is waited for
/// first.
template <Wire kWire>
TUTTI_DEVICE void awaitFree(KernelLane& lane, const uint32_t* credit, unsigned char* slot,
                            uint32_t message, int peer, uint32_t bytes) {
  if (!awaitAtLeast(lane, credit, message - lane.all.slotCount, peer)) return;
  if constexpr (kWire != Wire::Simple) {
    sendWords(slot, lane.callHash, lane.operation, message);
    sendWords(slot + 16, bytes, 0, message);
  }
}

/// Behind a barrier of the lane, whose threads have written the message: one of Simple, for those
/// of LL have told themselves. `reach`: of one that leaves the host.
TUTTI_DEVICE void tell(const KernelLane& lane, unsigned char* slot, uint32_t message,
                       uint32_t bytes, uint32_t reach) {
  auto* const header = reinterpret_cast<MessageHeader*>(slot);
  header->callHash = lane.callHash;
  header->operation = lane.operation;
  header->bytes = bytes;
  header->reach = reach;
  ptx::stReleaseSys(&header->sequence, message);
}

}  // namespace tutti::executor::kernel
