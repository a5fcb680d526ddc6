#include "src/executor/cuda/far_link.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "src/base/check.h"

namespace tutti::executor::cuda {
namespace {

using transports::p2p::kLine;
using transports::p2p::MessageHeader;
using transports::p2p::Wire;

uint32_t loadAcquire(uint32_t* word) {
  return std::atomic_ref(*word).load(std::memory_order_acquire);
}
void storeRelease(uint32_t* word, uint32_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}

std::byte* payloadOf(MessageHeader* slot) { return reinterpret_cast<std::byte*>(slot) + kLine; }

PinnedSlots slotsAt(unsigned char* first, const transports::p2p::Layout& layout) {
  return {first, layout.rings.slotCount, layout.rings.slotBytes};
}

}  // namespace

MessageHeader* PinnedSlots::at(uint32_t message) const {
  const size_t index = (message - 1) & (count - 1);
  return reinterpret_cast<MessageHeader*>(first + index * slotStride(Wire::Simple, slotBytes));
}

// ---- what the kernel sends

FarSender::FarSender(const transports::p2p::Link& link, const transports::p2p::Layout& layout,
                     transports::SendRing& ring)
    : slots_(slotsAt(link.sendSlots, layout)),
      credit_(link.credit),
      ring_(ring),
      ahead_(ring.sent() - link.sent),
      handed_(link.sent),
      returned_(link.sent) {}

bool FarSender::isPublished(uint32_t message) const {
  return loadAcquire(&slots_.at(message)->sequence) == message;
}

bool FarSender::move() {
  bool moved = false;
  for (; ring_.ready() && isPublished(handed_ + 1); moved = true) handOver(++handed_);
  const uint32_t returned = countReturned();
  if (returned == returned_) return moved;
  returned_ = returned;
  storeRelease(credit_, returned);
  return true;
}

void FarSender::handOver(uint32_t message) {
  MessageHeader* const slot = slots_.at(message);
  TUTTI_ASSERT(slot->bytes <= slot->reach && slot->reach <= slots_.slotBytes, "a message of ",
               slot->bytes, " bytes that reaches to ", slot->reach, " in a slot of ",
               slots_.slotBytes);
  const std::byte* const data = payloadOf(slot);
  const uint32_t bytes = std::max(slot->reach, kLeastTravel);
  if (ring_.canLend()) return ring_.lend(data, slot->callHash, slot->operation, bytes, slot->bytes);
  std::memcpy(ring_.payload(bytes), data, bytes);
  ring_.publish(slot->callHash, slot->operation, bytes, slot->bytes);
}

// What was copied is read no more; what was lent, when the transport says so.
uint32_t FarSender::countReturned() const {
  if (!ring_.canLend()) return handed_;
  uint32_t returned = returned_;
  while (returned != handed_ && ring_.returned(returned + 1 + ahead_)) ++returned;
  return returned;
}

// ---- what the kernel receives

FarReceiver::FarReceiver(const transports::p2p::Link& link, const transports::p2p::Layout& layout,
                         transports::ReceiveRing& ring, int peer)
    : slots_(slotsAt(link.receiveSlots, layout)),
      taken_(link.peerCredit),
      ring_(ring),
      peer_(peer),
      delivered_(link.received) {}

// Acquire: the kernel has finished reading the slots.
bool FarReceiver::hasRoom() const { return delivered_ - loadAcquire(taken_) < slots_.count; }

bool FarReceiver::move() {
  bool moved = false;
  for (; ring_.ready() && hasRoom(); moved = true) {
    deliver(++delivered_);
    ring_.release();
  }
  return moved;
}

void FarReceiver::deliver(uint32_t message) {
  transports::SlotHeader& from = *ring_.slot();
  const bool isWhole = from.bytes >= kLeastTravel && from.bytes <= slots_.slotBytes;
  if (!isWhole || transports::noteOf(&from) > from.bytes)
    base::fail(ErrorCode::Refused, "a message of ", from.bytes, " bytes from rank ", peer_,
               " cannot be what its kernel sent");
  MessageHeader* const slot = slots_.at(message);
  std::memcpy(payloadOf(slot), ring_.payload(), from.bytes);
  slot->callHash = from.callHash;
  slot->operation = from.operation;
  slot->bytes = transports::noteOf(&from);
  storeRelease(&slot->sequence, message);
}

}  // namespace tutti::executor::cuda
