#pragma once

// One link between a kernel and a peer on another host, as the thread between them sees it: on one
// side the slots of p2p, in pinned memory, on the other a transport's ring. Message n of the link
// is as many messages of the ring further on at both ends, so slots need no numbers of their own.
//
//   kernel -> slot, number -> zero-copy or copied to the ring -> ... -> credit, once nobody reads
//   it kernel <- slot, header, number last <- copied from the ring <- ...      credit -> next slot
//
// Of direct messages (P2pLink::directBytes) the payload is in memory of the device at both ends,
// which the transport reads and writes by itself; only what says that they are there goes this way.
// The ring's slot is given back when the kernel has taken the message.
//
// Nothing here waits, and one thread calls it.

#include <cstdint>

#include "src/executor/kernel/direct.h"
#include "transports/connection.h"
#include "transports/p2p/memory_layout.h"

namespace tutti::executor::kernel {

/// The slots of one direction of a link.
struct LinkSlots {
  unsigned char* first;   ///< pinned
  unsigned char* direct;  ///< of the device; null: none
  uint32_t directBytes;   ///< of what reaches so far the payload lies there
  uint32_t count;
  size_t slotBytes;  ///< of payload
  transports::p2p::MessageHeader* at(uint32_t message) const;
  /// Where the payload of a message lies that reaches so far.
  std::byte* payload(uint32_t message, uint32_t reach) const;
};

/// What the kernel sends.
class RemoteSender {
 public:
  RemoteSender(const transports::p2p::P2pLink& link, const transports::p2p::P2pLayout& layout,
               transports::SendRing& ring);
  /// Hands over what was published, as far as the ring has room, and gives slots back to the kernel
  /// that nobody reads any more. True when something moved.
  bool move();
  /// Nothing is left to hand over or to give back.
  bool isSettled() const { return handed_ == completed_ && !isPublished(handed_ + 1); }

 private:
  bool isPublished(uint32_t message) const;
  void handOver(uint32_t message);
  uint32_t countCompleted() const;

  const LinkSlots slots_;
  uint32_t* const credit_;
  transports::SendRing& ring_;
  const uint32_t ahead_;  // the ring's numbers are that much larger
  uint32_t handed_, completed_;
};

/// What the kernel receives.
class RemoteReceiver {
 public:
  /// `arrivals` outlives it.
  RemoteReceiver(const transports::p2p::P2pLink& link, const transports::p2p::P2pLayout& layout,
                 transports::ReceiveRing& ring, int peer, const Arrivals& arrivals);
  /// Copies what has come to the kernel's slots that are free, and gives back the ring's slots of
  /// what nobody needs there. True when something moved. Throws Refused when it cannot be what a
  /// kernel sent.
  bool move();

 private:
  bool hasRoom() const;
  void deliver(uint32_t message);
  bool giveBack();

  const LinkSlots slots_;
  uint32_t* const taken_;
  transports::ReceiveRing& ring_;
  const int peer_;
  const Arrivals& arrivals_;
  uint32_t delivered_, givenBack_;
};

}  // namespace tutti::executor::kernel
