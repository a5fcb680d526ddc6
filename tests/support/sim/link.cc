#include "tests/support/sim/link.h"

#include <cstring>

#include "src/base/check.h"

namespace tutti::transports::sim {
int Packet::source() const { return forward() ? link->from : link->to; }
int Packet::target() const { return forward() ? link->to : link->from; }

SimLink::SimLink(int source, int target, int number, const RingLayout& rings, uint32_t first)
    : from(source),
      to(target),
      channel(number),
      layout(rings),
      sender(rings, first),
      receiver(rings, first),
      sent(first),
      confirmed(first),
      delivered(first),
      creditTold(first),
      creditHeard(first),
      early_(rings.slotCount) {}

bool SimLink::takePublished(Packet& packet) {
  if (sent - sender.credit().load(std::memory_order_relaxed) >= layout.slotCount) return false;
  if (sender.slot(sent + 1)->sequence.load(std::memory_order_acquire) != sent + 1) return false;
  packet = again(++sent);
  return true;
}

Packet SimLink::again(uint32_t message) {
  SlotHeader* s = sender.slot(message);
  TUTTI_ASSERT(s->sequence.load(std::memory_order_relaxed) == message, "message ", message,
               " from rank ", from, " to rank ", to, " is repeated after its slot was used again");
  TUTTI_ASSERT(s->bytes <= layout.slotBytes, "rank ", from, " sent ", s->bytes,
               " bytes in a slot of ", layout.slotBytes, " to rank ", to);
  const std::byte* payload = sender.payload(message);
  return {this,
          PacketKind::Data,
          message,
          s->callHash,
          s->operation,
          s->bytes,
          sender.note(message),
          std::make_shared<const std::vector<std::byte>>(payload, payload + s->bytes)};
}

// Also of those that were published and not sent yet.
bool SimLink::hasZeroCopyUnderWay() const {
  for (uint32_t message = confirmed + 1; message - confirmed <= layout.slotCount; ++message) {
    if (sender.slot(message)->sequence.load(std::memory_order_acquire) != message) return false;
    if (sender.isZeroCopy(message)) return true;
  }
  return false;
}

bool SimLink::onAck(uint32_t messages) {
  if (!laterMessage(messages, confirmed) || laterMessage(messages, sent)) return false;
  confirmed = messages;
  sender.completed().store(messages, std::memory_order_release);
  return true;
}

bool SimLink::onCredit(uint32_t messages) {
  if (!laterMessage(messages, sender.credit().load(std::memory_order_relaxed)) ||
      laterMessage(messages, sent))
    return false;
  onAck(messages);  // what was taken has arrived
  sender.credit().store(messages, std::memory_order_release);
  return true;
}

bool SimLink::takeCredit(uint32_t& messages) {
  messages = receiver.credit().load(std::memory_order_acquire);
  if (messages == creditTold) return false;
  creditTold = messages;
  return true;
}

void SimLink::onData(const Packet& packet) {
  if (!laterMessage(packet.number, delivered)) return;
  // Acquire: the receiver has finished reading what was in the slot before.
  const uint32_t taken = receiver.credit().load(std::memory_order_acquire);
  TUTTI_ASSERT(packet.number - taken <= layout.slotCount, "message ", packet.number, " from rank ",
               from, " to rank ", to, " came although only ", taken, " were taken");
  if (!early_[receiver.index(packet.number)]) {
    early_[receiver.index(packet.number)] = true;
    SlotHeader* s = receiver.slot(packet.number);
    s->callHash = packet.callHash;
    s->operation = packet.operation;
    s->bytes = packet.bytes;
    setNote(s, packet.bytes, packet.note);
    put(packet, s);
  }
  while (early_[receiver.index(delivered + 1)]) {
    early_[receiver.index(++delivered)] = false;
    receiver.slot(delivered)->sequence.store(delivered, std::memory_order_release);
  }
}

void SimLink::put(const Packet& packet, SlotHeader* slot) const {
  const bool isDirect = packet.bytes >= direct.leastBytes;
  if (packet.bytes == 0 || (isDirect && cancelled)) return;
  std::byte* const place =
      isDirect ? direct.at(receiver.index(packet.number)) : payloadOf(slot, packet.bytes);
  std::memcpy(place, packet.payload->data(), packet.bytes);
}

bool SimLink::onCreditAck(uint32_t messages) {
  if (!laterMessage(messages, creditHeard) || laterMessage(messages, creditTold)) return false;
  creditHeard = messages;
  return true;
}

}  // namespace tutti::transports::sim
