#pragma once

// The kernel's side of one channel to another host, for tests of what passes its messages on.

#include <atomic>
#include <cstring>
#include <vector>

#include "src/executor/kernel/remote_link.h"

namespace tutti::tests {

using transports::p2p::kLine;
using transports::p2p::kNoMessage;
using transports::p2p::MessageHeader;

constexpr uint32_t kSlots = 4;
constexpr size_t kSlotBytes = 512;

inline void store(uint32_t* word, uint32_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}
inline uint32_t load(uint32_t* word) {
  return std::atomic_ref(*word).load(std::memory_order_acquire);
}

class Kernel {
 public:
  explicit Kernel(uint32_t first, size_t slotBytes = kSlotBytes, uint32_t directBytes = kNoMessage)
      : layout{.rings = {.channels = 1, .slotCount = kSlots, .slotBytes = slotBytes},
               .lowLatencyBytes = 128},
        at_(layout),
        pinned_(at_.totalBytes() / kLine),
        direct_(at_.directBytes() / kLine) {
    auto* const begin = reinterpret_cast<unsigned char*>(pinned_.data());
    auto* const direct = reinterpret_cast<unsigned char*>(direct_.data());
    link = {.sendSlots = begin + at_.sendSlots(0),
            .receiveSlots = begin + at_.receiveSlots(0),
            .credit = reinterpret_cast<uint32_t*>(begin + at_.credit(0)),
            .peerCredit = reinterpret_cast<uint32_t*>(begin + at_.peerCredit(0)),
            .sent = first,
            .received = first,
            .leavesHost = 1,
            .directBytes = directBytes,
            .directSendSlots = direct + at_.directSendSlots(0),
            .directReceiveSlots = direct + at_.directReceiveSlots(0)};
    *link.credit = *link.peerCredit = first;
  }
  MessageHeader* slot(unsigned char* slots, uint32_t message) const {
    return reinterpret_cast<MessageHeader*>(
        slots + ((message - 1) & (kSlots - 1)) *
                    slotStride(transports::p2p::Wire::Simple, layout.rings.slotBytes));
  }
  static unsigned char* payload(MessageHeader* slot) {
    return reinterpret_cast<unsigned char*>(slot) + kLine;
  }
  /// Bytes that are all the message's number.
  void publish(uint32_t message, uint32_t reach) const {
    unsigned char* const slots = reach >= link.directBytes ? link.directSendSlots : link.sendSlots;
    std::memset(payload(slot(slots, message)), static_cast<int>(message), reach);
    MessageHeader* const s = slot(link.sendSlots, message);
    s->callHash = 1000 + message;
    s->operation = 2000 + message;
    s->bytes = reach / 2;
    s->reach = reach;
    store(&s->sequence, message);
  }

  const transports::p2p::P2pLayout layout;
  transports::p2p::P2pLink link;

 private:
  struct alignas(kLine) Line {
    unsigned char bytes[kLine];
  };
  const transports::p2p::HostMemoryLayout at_;
  std::vector<Line> pinned_, direct_;
};

inline transports::RingLayout ringLayout(size_t slotBytes = kSlotBytes) {
  return {.channels = 1, .slotCount = kSlots, .slotBytes = slotBytes};
}

}  // namespace tutti::tests
