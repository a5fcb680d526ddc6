#pragma once

// One ring over the simulated wire: the sender's slots and credit word, the receiver's, and the
// state of the protocol that makes the second a copy of the first although packets are lost,
// doubled and reordered. Pure bookkeeping: the network calls it, and sends what it says.
//
// Messages are numbered as in the rings. The sender's slots are the store for retransmission: a
// slot is not overwritten before its credit has come back, which implies that it has arrived. The
// receiver's free slots are the reorder buffer: a message that comes early is put into its slot
// and published when those before it have come. Credits are one growing number, told again until
// it is confirmed.

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/support/sim/trace.h"
#include "transports/connection.h"
#include "transports/ring_storage.h"

namespace tutti::transports::sim {

struct SimLink;

/// What travels. Data and CreditAck go from the ring's sender to its receiver, the others back.
struct Packet {
  SimLink* link = nullptr;
  PacketKind kind = PacketKind::Data;
  uint32_t number = 0;  ///< of the message; messages delivered; messages taken
  uint32_t callHash = 0, operation = 0, bytes = 0, note = 0;
  std::shared_ptr<const std::vector<std::byte>> payload;  ///< doubled packets share it

  bool forward() const { return kind == PacketKind::Data || kind == PacketKind::CreditAck; }
  int source() const;
  int target() const;
};

/// Retransmission of one thing until it is confirmed. At most one event is queued for it.
struct Timer {
  bool queued = false;
  int64_t dueNs = 0;
  int doublings = 0;
};

struct SimLink {
  SimLink(int from, int to, int channel, const RingLayout& layout, uint32_t firstNumber);

  // Sender's side.
  /// The next message that was published and not yet sent, as a packet; false when none.
  bool takePublished(Packet& packet);
  /// A message that was sent before and is not confirmed.
  Packet again(uint32_t message);
  bool allConfirmed() const { return confirmed == sent; }
  /// The payload of a message that is not confirmed was sent zero-copy.
  bool hasZeroCopyUnderWay() const;
  /// True when it was news.
  bool onAck(uint32_t messages);
  bool onCredit(uint32_t messages);

  // Receiver's side.
  /// True when the receiver has given back slots of which the sender was not told.
  bool takeCredit(uint32_t& messages);
  void onData(const Packet& packet);
  bool onCreditAck(uint32_t messages);
  bool creditConfirmed() const { return creditHeard == creditTold; }

  const int from, to, channel;
  const RingLayout layout;
  RingStorage sender, receiver;
  DirectSlots direct;      // the receiver's
  bool cancelled = false;  // nothing is put there any more

  // Messages sent at least once, and those of them known to have arrived.
  uint32_t sent, confirmed;
  // Messages published to the receiver.
  uint32_t delivered;
  // Credit that the sender was told, and that it has confirmed.
  uint32_t creditTold, creditHeard;
  Timer dataTimer, creditTimer;
  // Per direction (0 forward): arrival of the last packet in order, and when the wire is free.
  int64_t lastArrivalNs[2] = {0, 0}, wireFreeNs[2] = {0, 0};
  bool dead = false;

 private:
  void put(const Packet& packet, SlotHeader* slot) const;
  std::vector<bool> early_;  // by slot: arrived, not yet published
};

}  // namespace tutti::transports::sim
