#include "src/executor/copy/lane.h"

namespace tutti::executor::copy {

CopyLane::CopyLane(const Ground& ground, uint32_t number, const LaneStream& stream, uint64_t key)
    : ground_(ground),
      words_(ground.own->lanes + number),
      key_(key),
      stream_(stream),
      queue_(stream.stream, ground.waitFlags) {}

template <class Word>
Word* CopyLane::here(size_t offset) const {
  return reinterpret_cast<Word*>(ground_.endpoint.memory() + offset);
}

template <class Word>
Word* CopyLane::there(int peer, size_t offset) const {
  return reinterpret_cast<Word*>(ground_.endpoint.memoryOf(peer) + offset);
}

uint32_t CopyLane::slotOf(const CopyMessage& message) const {
  return static_cast<uint32_t>(message.number % ground_.endpoint.layout().rings.slotCount);
}

unsigned char* CopyLane::received(const CopyMessage& message) const {
  return here<unsigned char>(
      ground_.endpoint.offsets().copySlot(message.channel, message.peer, slotOf(message)));
}

unsigned char* CopyLane::slot(const CopyMessage& message) const {
  return there<unsigned char>(
      message.peer, ground_.endpoint.offsets().copySlot(message.channel, ground_.endpoint.rank(),
                                                        slotOf(message)));
}

void CopyLane::set(uint32_t* word, uint32_t& has, uint32_t value) {
  if (has != value) queue_.write(word, value);
  has = value;
}

// For the host that looks what the lane waits for.
void CopyLane::expect(Waiting what, const CopyMessage& message) {
  set(&words_->state.call, call_, fingerprintOf(key_, message.bytes));
  set(&words_->state.told, told_, told(key_, message.bytes));
  queue_.write(&words_->state.number, static_cast<uint32_t>(message.number));
  queue_.write(&words_->state.place, placeOf(what, message.channel, slotOf(message), message.peer));
}

// What the stream does next may take long, or wait for another lane; meanwhile the slot may have
// the next message.
void CopyLane::pass() { queue_.write(&words_->state.place, placeOf(Waiting::Passed, 0, 0, 0)); }

void CopyLane::awaitLane(CopyLane& other) {
  other.queue_.flush();
  if (other.stream_.stream != stream_.stream) other.stream_.holdBack(queue_.flush());
}

// At least this and at least its complement: exactly this, or open.
void CopyLane::awaitMessage(const CopyMessage& message) {
  expect(Waiting::Message, message);
  const auto* const mark = here<CopyMark>(
      ground_.endpoint.offsets().copyMark(message.channel, message.peer, slotOf(message)));
  const uint32_t call = fingerprintOf(key_, message.bytes);
  queue_.awaitAtLeast(&mark->call, call);
  queue_.awaitAtLeast(&mark->complement, kOpen - call);
  queue_.awaitAtLeast(&mark->alive, 1);
  pass();
}

void CopyLane::awaitSlot(const CopyMessage& message) {
  expect(Waiting::Slot, message);
  queue_.awaitAtLeast(here<uint32_t>(ground_.endpoint.offsets().copyCredit(
                          message.channel, message.peer, slotOf(message))),
                      0);
  pass();
}

// The driver's documentation promises a fence before what cuStreamWriteValue32() writes, and does
// not say whether it may write to another device's memory, or to that of another process. A copy
// may, and begins when those before it in the stream have ended. One of up to 16 aligned bytes is
// written by words at least; each of them is waited for.
void CopyLane::tell(const CopyMessage& message) {
  const auto& offsets = ground_.endpoint.offsets();
  const uint32_t slot = slotOf(message), call = fingerprintOf(key_, message.bytes);
  if (stagedCall_ != call) {
    queue_.write(&words_->stage.complement, kOpen - call);
    queue_.write(&words_->stage.told, told(key_, message.bytes));
  }
  set(&words_->stage.call, stagedCall_, call);
  queue_.copy(here<uint32_t>(offsets.copyCredit(message.channel, message.peer, slot)),
              &ground_.own->sources.taken, sizeof(uint32_t));
  queue_.copy(there<CopyMark>(message.peer,
                              offsets.copyMark(message.channel, ground_.endpoint.rank(), slot)),
              &words_->stage, sizeof(CopyMark));
}

void CopyLane::giveBack(const CopyMessage& message) {
  const auto& offsets = ground_.endpoint.offsets();
  const uint32_t slot = slotOf(message);
  queue_.copy(here<CopyMark>(offsets.copyMark(message.channel, message.peer, slot)),
              &ground_.own->sources.empty, sizeof(CopyMark));
  queue_.copy(there<uint32_t>(message.peer,
                              offsets.copyCredit(message.channel, ground_.endpoint.rank(), slot)),
              &ground_.own->sources.freed, sizeof(uint32_t));
}

void CopyLane::end() {
  queue_.write(&words_->state.place, placeOf(Waiting::Nothing, 0, 0, 0));
  queue_.flush();
}

}  // namespace tutti::executor::copy
