#include "transports/ucx/link.h"

#include <cstring>

#include "src/base/check.h"

namespace tutti::transports::ucx {

// ---- sending

SendLink::SendLink(const RingLayout& layout, int channel)
    : channel_(channel), storage_(layout), ring_(storage_.memory()), sendings_(layout.slotCount) {}

bool SendLink::published() const {
  const uint32_t next = posted_ + 1;
  return !stopped_ &&
         posted_ - storage_.credit().load(std::memory_order_relaxed) < storage_.slotCount() &&
         storage_.slot(next)->sequence.load(std::memory_order_acquire) == next;
}

void SendLink::post(Worker& worker, Connection& connection, uint64_t sink, uint32_t credit) {
  const uint32_t number = ++posted_;
  const SlotHeader* const slot = storage_.slot(number);
  Sending& sending = sendings_[storage_.index(number)];
  sending.link = this;
  // What has not got through to the peer yet cannot be taken back (Worker::leave): it is copied.
  if (storage_.isZeroCopy(number) && !connection.made()) storage_.keep(number);
  sending.zeroCopy = storage_.isZeroCopy(number);
  sending.over = false;
  sending.header = {.sink = sink,
                    .number = number,
                    .callHash = slot->callHash,
                    .operation = slot->operation,
                    .bytes = slot->bytes,
                    .credit = credit,
                    .channel = static_cast<uint32_t>(channel_),
                    .note = storage_.note(number),
                    .unused = 0};
  ++underWay_;
  zeroCopyUnderWay_ += sending.zeroCopy;
  worker.sendData(connection, sending.header, storage_.payload(number), isDirect(number), sending);
}

void SendLink::Sending::done(ucs_status_t status) noexcept {
  --link->underWay_;
  link->zeroCopyUnderWay_ -= zeroCopy;
  link->failed_ |= status != UCS_OK;
  over = true;
  link->giveBack();
}

bool SendLink::onCredit(uint32_t messages) {
  if (laterMessage(messages, posted_)) return false;
  if (!laterMessage(messages, taken_)) return true;  // overtaken by a later one
  taken_ = messages;
  giveBack();
  return true;
}

// A slot may be written again when both ends are through with it; none where something failed, for
// the connection is lost.
void SendLink::giveBack() {
  while (over_ != posted_ && sendings_[storage_.index(over_ + 1)].over) ++over_;
  storage_.completed().store(over_, std::memory_order_release);
  const uint32_t both = laterMessage(taken_, over_) ? over_ : taken_;
  if (!failed_) storage_.credit().store(both, std::memory_order_release);
}

// ---- receiving

ReceiveLink::ReceiveLink(const RingLayout& layout)
    : slotBytes_(layout.slotBytes),
      storage_(layout),
      ring_(storage_.memory()),
      fetchings_(layout.slotCount) {}

bool ReceiveLink::onData(Worker& worker, const DataHeader& header, const Arrived& data) {
  const uint32_t number = header.number;
  SlotHeader* const slot = storage_.slot(number);
  Fetching& fetching = fetchings_[storage_.index(number)];
  const bool isDirect = header.bytes >= direct_.leastBytes;
  if (number - told_ - 1 >= storage_.slotCount() || fetching.underWay ||
      slot->sequence.load(std::memory_order_relaxed) == number || header.bytes != data.bytes ||
      header.bytes > slotBytes_ || (isDirect && !data.rendezvous))
    return false;
  if (isDirect && stopped_) return true;
  slot->callHash = header.callHash;
  slot->operation = header.operation;
  slot->bytes = header.bytes;
  setNote(slot, header.bytes, header.note);
  std::byte* const payload =
      isDirect ? direct_.at(storage_.index(number)) : payloadOf(slot, header.bytes);
  if (data.rendezvous) {
    fetching.link = this;
    fetching.number = number;
    fetching.underWay = true;
    fetching.isDirect = isDirect;
    ++underWay_;
    directUnderWay_ += isDirect;
    worker.fetch(data, payload, fetching);
    return true;
  }
  if (data.bytes > 0) std::memcpy(payload, data.data, data.bytes);
  slot->sequence.store(number, std::memory_order_release);
  return true;
}

void ReceiveLink::Fetching::done(ucs_status_t status) noexcept {
  underWay = false;
  --link->underWay_;
  link->directUnderWay_ -= isDirect;
  if (status != UCS_OK)
    link->failure_ = status;
  else
    link->storage_.slot(number)->sequence.store(number, std::memory_order_release);
}

}  // namespace tutti::transports::ucx
