#include "transports/tcp/link.h"

namespace tutti::transports::tcp {
namespace {

constexpr uint32_t kCopiedBytes = 32768;

}  // namespace

// ---- sending

TcpSendLink::TcpSendLink(const RingLayout& layout, int channel)
    : channel_(channel), storage_(layout), ring_(storage_.memory()), done_(layout.slotCount) {}

bool TcpSendLink::published() const {
  const uint32_t next = posted_ + 1;
  return posted_ - storage_.credit().load(std::memory_order_relaxed) < storage_.slotCount() &&
         storage_.slot(next)->sequence.load(std::memory_order_acquire) == next;
}

void TcpSendLink::post() {
  const uint32_t number = ++posted_;
  if (storage_.isZeroCopy(number) && bytesOf(number) <= kCopiedBytes) storage_.keep(number);
  if (!storage_.isZeroCopy(number)) onReceived(number);
}

const std::byte* TcpSendLink::fill(uint32_t number, TcpFrame& frame) const {
  const SlotHeader* const slot = storage_.slot(number);
  frame.type = FrameType::Data;
  frame.flags = storage_.isZeroCopy(number) ? TcpFrame::kTellAtOnce : 0;
  frame.channel = static_cast<uint16_t>(channel_);
  frame.number = number;
  frame.callHash = slot->callHash;
  frame.operation = slot->operation;
  frame.bytes = slot->bytes;
  frame.note = storage_.note(number);
  return storage_.payload(number);
}

void TcpSendLink::onReceived(uint32_t number) {
  if (!laterMessage(number, over_)) return;
  done_[storage_.index(number)] = true;
  advance();
}

// What the receiver has taken it has had.
bool TcpSendLink::onCredit(uint32_t messages) {
  if (laterMessage(messages, posted_)) return false;
  taken_ = messages;
  while (laterMessage(taken_, over_)) {
    done_[storage_.index(over_ + 1)] = true;
    advance();
  }
  storage_.credit().store(taken_, std::memory_order_release);
  return true;
}

void TcpSendLink::advance() {
  while (over_ != posted_ && done_[storage_.index(over_ + 1)]) {
    ++over_;
    done_[storage_.index(over_)] = false;
  }
  storage_.completed().store(over_, std::memory_order_release);
}

// ---- receiving

TcpReceiveLink::TcpReceiveLink(const RingLayout& layout)
    : slotBytes_(layout.slotBytes),
      storage_(layout),
      ring_(storage_.memoryWithPlaces()),
      begun_(layout.slotCount) {}

std::byte* TcpReceiveLink::begin(const TcpFrame& frame, uint32_t stream) {
  SlotHeader* const slot = storage_.slot(frame.number);
  if (frame.number - told_ - 1 >= storage_.slotCount() || frame.bytes > slotBytes_ ||
      slot->sequence.load(std::memory_order_relaxed) == frame.number)
    return nullptr;
  // Two streams that wrote one message would go on after it was released.
  Begun& begun = begun_[storage_.index(frame.number)];
  if (begun.number == frame.number && begun.stream != stream) return nullptr;
  begun = {frame.number, stream};
  slot->callHash = frame.callHash;
  slot->operation = frame.operation;
  slot->bytes = frame.bytes;
  setNote(slot, frame.bytes, frame.note);
  PayloadPlace& place = storage_.place(frame.number);
  std::byte* const wanted = place.at.load(std::memory_order_acquire);
  const bool expected = wanted && place.bytes == frame.bytes && place.callHash == frame.callHash &&
                        place.operation == frame.operation;
  place.used = expected ? wanted : nullptr;
  return expected ? wanted : payloadOf(slot, frame.bytes);
}

void TcpReceiveLink::complete(const TcpFrame& frame) {
  storage_.slot(frame.number)->sequence.store(frame.number, std::memory_order_release);
}

}  // namespace tutti::transports::tcp
