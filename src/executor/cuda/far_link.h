#pragma once

// One link between a kernel and a peer on another host, as the thread between them sees it: on one
// side the slots of p2p, in pinned memory, on the other a transport's ring. Message n of the link
// is as many messages of the ring further on at both ends, so slots need no numbers of their own.
//
//   kernel -> slot, number -> lent or copied to the ring -> ... -> credit, once nobody reads it
//   kernel <- slot, header, number last <- copied from the ring <- ...    credit -> next slot
//
// Nothing here waits, and one thread calls it.

#include <cstdint>

#include "transports/connection.h"
#include "transports/p2p/memory_layout.h"

namespace tutti::executor::cuda {

/// Less does not travel, so that every message has room for a note: how many bytes it has, as its
/// receiver will check. Those of the ring's header are what travels, gaps included.
inline constexpr uint32_t kLeastTravel = transports::kLineBytes;

/// The slots of one direction of a link.
struct PinnedSlots {
  unsigned char* first;
  uint32_t count;
  size_t slotBytes;  ///< of payload
  transports::p2p::MessageHeader* at(uint32_t message) const;
};

/// What the kernel sends.
class FarSender {
 public:
  FarSender(const transports::p2p::Link& link, const transports::p2p::Layout& layout,
            transports::SendRing& ring);
  /// Hands over what was published, as far as the ring has room, and gives slots back to the kernel
  /// that nobody reads any more. True when something moved.
  bool move();
  /// Nothing is left to hand over or to give back.
  bool isSettled() const { return handed_ == returned_ && !isPublished(handed_ + 1); }

 private:
  bool isPublished(uint32_t message) const;
  void handOver(uint32_t message);
  uint32_t countReturned() const;

  const PinnedSlots slots_;
  uint32_t* const credit_;
  transports::SendRing& ring_;
  const uint32_t ahead_;  // the ring's numbers are that much larger
  uint32_t handed_, returned_;
};

/// What the kernel receives.
class FarReceiver {
 public:
  FarReceiver(const transports::p2p::Link& link, const transports::p2p::Layout& layout,
              transports::ReceiveRing& ring, int peer);
  /// Copies what has come to the kernel's slots that are free. True when something moved. Throws
  /// Refused when it cannot be what a kernel sent.
  bool move();

 private:
  bool hasRoom() const;
  void deliver(uint32_t message);

  const PinnedSlots slots_;
  uint32_t* const taken_;
  transports::ReceiveRing& ring_;
  const int peer_;
  uint32_t delivered_;
};

}  // namespace tutti::executor::cuda
