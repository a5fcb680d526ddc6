#include "transports/sim/link.h"

#include <cstring>
#include <new>

#include "src/base/check.h"

namespace tutti::transports::sim {
namespace {

// Numbers wrap: a is later than b when it is less than half the circle ahead.
bool later(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

}  // namespace

int Packet::source() const { return forward() ? link->from : link->to; }
int Packet::target() const { return forward() ? link->to : link->from; }

void Link::Free::operator()(std::byte* p) const {
  ::operator delete (p, std::align_val_t{kLineBytes});
}

Link::Slots Link::makeSlots(const RingLayout& layout, uint32_t firstNumber) {
  const size_t stride = slotStride(layout.slotBytes);
  Slots slots(static_cast<std::byte*>(
      ::operator new (stride* layout.slotCount, std::align_val_t{kLineBytes})));
  for (uint32_t i = 0; i < layout.slotCount; ++i) {
    auto* header = new (slots.get() + i * stride) SlotHeader{};
    // Any number that no coming message of this slot has.
    header->sequence.store(firstNumber, std::memory_order_relaxed);
  }
  return slots;
}

Link::Link(int source, int target, int number, const RingLayout& rings, uint32_t first)
    : from(source),
      to(target),
      channel(number),
      layout(rings),
      sent(first),
      confirmed(first),
      delivered(first),
      creditTold(first),
      creditHeard(first),
      senderSlots_(makeSlots(rings, first)),
      receiverSlots_(makeSlots(rings, first)),
      senderCredit_(first),
      receiverCredit_(first),
      early_(rings.slotCount) {
  const size_t stride = slotStride(layout.slotBytes);
  senderMemory = {senderSlots_.get(), &senderCredit_, layout.slotCount, stride};
  receiverMemory = {receiverSlots_.get(), &receiverCredit_, layout.slotCount, stride};
}

SlotHeader* Link::slot(const RingMemory& memory, uint32_t message) const {
  return reinterpret_cast<SlotHeader*>(memory.slots + ((message - 1) & (memory.slotCount - 1)) *
                                                          memory.strideBytes);
}

bool Link::takePublished(Packet& packet) {
  if (sent - senderCredit_.load(std::memory_order_relaxed) >= layout.slotCount) return false;
  if (slot(senderMemory, sent + 1)->sequence.load(std::memory_order_acquire) != sent + 1)
    return false;
  packet = again(++sent);
  return true;
}

Packet Link::again(uint32_t message) {
  SlotHeader* s = slot(senderMemory, message);
  TUTTI_ASSERT(s->sequence.load(std::memory_order_relaxed) == message, "message ", message,
               " from rank ", from, " to rank ", to, " is repeated after its slot was used again");
  TUTTI_ASSERT(s->bytes <= layout.slotBytes, "rank ", from, " sent ", s->bytes,
               " bytes in a slot of ", layout.slotBytes, " to rank ", to);
  const std::byte* payload = payloadOf(s, s->bytes);
  return {this,
          PacketKind::Data,
          message,
          s->callHash,
          s->operation,
          s->bytes,
          std::make_shared<const std::vector<std::byte>>(payload, payload + s->bytes)};
}

bool Link::onAck(uint32_t messages) {
  if (!later(messages, confirmed) || later(messages, sent)) return false;
  confirmed = messages;
  return true;
}

bool Link::onCredit(uint32_t messages) {
  if (!later(messages, senderCredit_.load(std::memory_order_relaxed)) || later(messages, sent))
    return false;
  onAck(messages);  // what was taken has arrived
  senderCredit_.store(messages, std::memory_order_release);
  return true;
}

bool Link::takeCredit(uint32_t& messages) {
  messages = receiverCredit_.load(std::memory_order_acquire);
  if (messages == creditTold) return false;
  creditTold = messages;
  return true;
}

void Link::onData(const Packet& packet) {
  if (!later(packet.number, delivered)) return;
  // Acquire: the receiver has finished reading what was in the slot before.
  const uint32_t taken = receiverCredit_.load(std::memory_order_acquire);
  TUTTI_ASSERT(packet.number - taken <= layout.slotCount, "message ", packet.number, " from rank ",
               from, " to rank ", to, " came although only ", taken, " were taken");
  const uint32_t mask = layout.slotCount - 1;
  if (!early_[packet.number & mask]) {
    early_[packet.number & mask] = true;
    SlotHeader* s = slot(receiverMemory, packet.number);
    s->callHash = packet.callHash;
    s->operation = packet.operation;
    s->bytes = packet.bytes;
    if (packet.bytes > 0)
      std::memcpy(payloadOf(s, packet.bytes), packet.payload->data(), packet.bytes);
  }
  while (early_[(delivered + 1) & mask]) {
    early_[++delivered & mask] = false;
    slot(receiverMemory, delivered)->sequence.store(delivered, std::memory_order_release);
  }
}

bool Link::onCreditAck(uint32_t messages) {
  if (!later(messages, creditHeard) || later(messages, creditTold)) return false;
  creditHeard = messages;
  return true;
}

}  // namespace tutti::transports::sim
