#include "src/executor/kernel/remote_link.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "src/base/check.h"

namespace tutti::executor::kernel {
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

}  // namespace

MessageHeader* LinkSlots::at(uint32_t message) const {
  const size_t index = (message - 1) & (count - 1);
  return reinterpret_cast<MessageHeader*>(first + index * slotStride(Wire::Simple, slotBytes));
}

std::byte* LinkSlots::payload(uint32_t message, uint32_t reach) const {
  const auto offset = reinterpret_cast<unsigned char*>(at(message)) - first + kLine;
  return reinterpret_cast<std::byte*>((reach >= directBytes ? direct : first) + offset);
}

// ---- what the kernel sends

RemoteSender::RemoteSender(const transports::p2p::P2pLink& link,
                           const transports::p2p::P2pLayout& layout, transports::SendRing& ring)
    : slots_{link.sendSlots, link.directSendSlots, link.directBytes, layout.rings.slotCount,
             layout.rings.slotBytes},
      credit_(link.credit),
      ring_(ring),
      ahead_(ring.sent() - link.sent),
      handed_(link.sent),
      completed_(link.sent) {}

bool RemoteSender::isPublished(uint32_t message) const {
  return loadAcquire(&slots_.at(message)->sequence) == message;
}

bool RemoteSender::move() {
  bool moved = false;
  for (; ring_.ready() && isPublished(handed_ + 1); moved = true) handOver(++handed_);
  const uint32_t completed = countCompleted();
  if (completed == completed_) return moved;
  completed_ = completed;
  storeRelease(credit_, completed);
  return true;
}

void RemoteSender::handOver(uint32_t message) {
  MessageHeader* const slot = slots_.at(message);
  TUTTI_ASSERT(slot->bytes <= slot->reach && slot->reach <= slots_.slotBytes, "a message of ",
               slot->bytes, " bytes that reaches to ", slot->reach, " in a slot of ",
               slots_.slotBytes);
  const std::byte* const data = slots_.payload(message, slot->reach);
  const uint32_t bytes = std::max(slot->reach, kLeastTravel);
  if (ring_.canZeroCopy())
    return ring_.publishZeroCopy(data, slot->callHash, slot->operation, bytes, slot->bytes);
  std::memcpy(ring_.payload(bytes), data, bytes);
  ring_.publish(slot->callHash, slot->operation, bytes, slot->bytes);
}

// What was copied is read no more; what was sent zero-copy, when the transport says so.
uint32_t RemoteSender::countCompleted() const {
  if (!ring_.canZeroCopy()) return handed_;
  uint32_t completed = completed_;
  while (completed != handed_ && ring_.completed(completed + 1 + ahead_)) ++completed;
  return completed;
}

// ---- what the kernel receives

RemoteReceiver::RemoteReceiver(const transports::p2p::P2pLink& link,
                               const transports::p2p::P2pLayout& layout,
                               transports::ReceiveRing& ring, int peer, const Arrivals& arrivals)
    : slots_{link.receiveSlots, link.directReceiveSlots, link.directBytes, layout.rings.slotCount,
             layout.rings.slotBytes},
      taken_(link.peerCredit),
      ring_(ring),
      peer_(peer),
      arrivals_(arrivals),
      delivered_(link.received),
      givenBack_(link.received) {
  TUTTI_REQUIRE(slots_.directBytes == transports::p2p::kNoMessage ||
                    (ring.received() - link.received) % slots_.count == 0,
                "the first message from rank ", peer, " has slot ", link.received % slots_.count,
                " here, and ", ring.received() % slots_.count, " on its way");
}

// Acquire: the kernel has finished reading the slots.
bool RemoteReceiver::hasRoom() const { return delivered_ - loadAcquire(taken_) < slots_.count; }

bool RemoteReceiver::move() {
  bool moved = false;
  for (; ring_.ready(delivered_ - givenBack_) && hasRoom(); moved = true) deliver(++delivered_);
  return giveBack() || moved;
}

// In order: what was copied may have to wait for a direct message before it.
bool RemoteReceiver::giveBack() {
  if (givenBack_ == delivered_) return false;
  const uint32_t before = givenBack_, taken = loadAcquire(taken_);
  for (; givenBack_ != delivered_; ++givenBack_) {
    const bool isTaken = static_cast<int32_t>(taken - givenBack_) > 0;
    if (!isTaken && ring_.slot()->bytes >= slots_.directBytes) break;
    ring_.release();
  }
  return givenBack_ != before;
}

void RemoteReceiver::deliver(uint32_t message) {
  const uint32_t beyond = message - givenBack_ - 1;
  transports::SlotHeader& from = *ring_.slot(beyond);
  const bool isWhole = from.bytes >= kLeastTravel && from.bytes <= slots_.slotBytes;
  if (!isWhole || transports::noteOf(&from) > from.bytes)
    base::fail(ErrorCode::Refused, "a message of ", from.bytes, " bytes from rank ", peer_,
               " cannot be what its kernel sent");
  MessageHeader* const slot = slots_.at(message);
  if (from.bytes < slots_.directBytes)
    std::memcpy(slots_.payload(message, from.bytes), ring_.payload(beyond), from.bytes);
  else
    arrivals_.flush();
  slot->callHash = from.callHash;
  slot->operation = from.operation;
  slot->bytes = transports::noteOf(&from);
  storeRelease(&slot->sequence, message);
}

}  // namespace tutti::executor::kernel
