#include "src/executor/copy/lane.h"

#include <algorithm>

#include "src/device/cuda/check.h"
#include "src/executor/copy/kernels.h"
#include "src/executor/kernel/types.h"

namespace tutti::executor::copy {
namespace {

constexpr uint32_t kMostCopyBlocks = 8;

bool isOfHost(const void* address) {
  cudaPointerAttributes attributes{};
  TUTTI_CUDA(cudaPointerGetAttributes(&attributes, address));
  return attributes.type == cudaMemoryTypeHost;
}

kernel::Operand operandAt(const void* address) {
  kernel::Operand operand{};
  operand.at = static_cast<unsigned char*>(const_cast<void*>(address));
  operand.alignment = reinterpret_cast<uint64_t>(address) % 16 == 0 ? 16 : 1;
  return operand;
}

/// A fold of one source, whose bytes stay as they are.
cudaError_t launchCopy(void* to, const void* from, uint64_t bytes, cudaStream_t stream) {
  FoldArguments arguments{};
  arguments.bytes = bytes;
  arguments.divideBy = 1;
  arguments.sources = arguments.targets = 1;
  arguments.type = kernel::kUInt8;
  arguments.op = kernel::kSum;
  arguments.operands[0] = operandAt(from);
  arguments.operands[1] = operandAt(to);
  arguments.isAligned =
      arguments.operands[0].alignment == 16 && arguments.operands[1].alignment == 16;
  const uint64_t wanted = (bytes / 16 + kFoldThreads) / kFoldThreads;
  return launchFold(1, static_cast<uint32_t>(std::min<uint64_t>(wanted, kMostCopyBlocks)),
                    arguments, stream);
}

}  // namespace

CopyLane::CopyLane(const Ground& ground, uint32_t number, const LaneStream& stream, uint64_t key)
    : ground_(ground),
      words_(ground.own->lanes + number),
      key_(key),
      stream_(stream),
      queue_(stream.stream, ground.waitFlags) {}

uint32_t CopyLane::slotOf(const CopyMessage& message) const {
  return static_cast<uint32_t>(message.number % ground_.endpoint.layout().rings.slotCount);
}

unsigned char* CopyLane::received(const CopyMessage& message) const {
  return ground_.endpoint.here(message.peer).copySlot(message.channel, slotOf(message));
}

unsigned char* CopyLane::slot(const CopyMessage& message) const {
  return ground_.endpoint.there(message.peer).copySlot(message.channel, slotOf(message));
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
  const CopyMark* const mark =
      ground_.endpoint.here(message.peer).copyMark(message.channel, slotOf(message));
  const uint32_t call = fingerprintOf(key_, message.bytes);
  queue_.awaitAtLeast(&mark->call, call);
  queue_.awaitAtLeast(&mark->complement, kOpen - call);
  queue_.awaitAtLeast(&mark->alive, 1);
  pass();
}

void CopyLane::awaitSlot(const CopyMessage& message) {
  expect(Waiting::Slot, message);
  queue_.awaitAtLeast(
      ground_.endpoint.here(message.peer).copyCredit(message.channel, slotOf(message)), 0);
  pass();
}

// The driver's documentation promises a fence before what cuStreamWriteValue32() writes, and does
// not say whether it may write to another device's memory, or to that of another process. A copy
// may, and begins when those before it in the stream have ended. One of up to 16 aligned bytes is
// written by words at least; each of them is waited for.
void CopyLane::tell(const CopyMessage& message) {
  const uint32_t slot = slotOf(message), call = fingerprintOf(key_, message.bytes);
  if (stagedCall_ != call) {
    queue_.write(&words_->stage.complement, kOpen - call);
    queue_.write(&words_->stage.told, told(key_, message.bytes));
  }
  set(&words_->stage.call, stagedCall_, call);
  queue_.copy(ground_.endpoint.here(message.peer).copyCredit(message.channel, slot),
              &ground_.own->sources.taken, sizeof(uint32_t));
  queue_.copy(ground_.endpoint.there(message.peer).copyMark(message.channel, slot), &words_->stage,
              sizeof(CopyMark));
}

void CopyLane::giveBack(const CopyMessage& message) {
  const uint32_t slot = slotOf(message);
  queue_.copy(ground_.endpoint.here(message.peer).copyMark(message.channel, slot),
              &ground_.own->sources.empty, sizeof(CopyMark));
  queue_.copy(ground_.endpoint.there(message.peer).copyCredit(message.channel, slot),
              &ground_.own->sources.freed, sizeof(uint32_t));
}

// Asked only where some slots are of the host.
bool CopyLane::areOfHost(const void* to, const void* from) const {
  return ground_.endpoint.hasHostMemory() && isOfHost(to) && isOfHost(from);
}

void CopyLane::copy(void* to, const void* from, uint64_t bytes) {
  if (bytes > 0 && to != from && areOfHost(to, from))
    TUTTI_CUDA(launchCopy(to, from, bytes, queue_.flush()));
  else
    queue_.copy(to, from, bytes);
}

void CopyLane::copyRows(const CopyRows& rows) {
  if (!areOfHost(rows.to, rows.from)) return queue_.copyRows(rows);
  for (uint64_t row = 0; row < rows.count; ++row)
    copy(static_cast<unsigned char*>(rows.to) + row * rows.toPitch,
         static_cast<const unsigned char*>(rows.from) + row * rows.fromPitch, rows.bytes);
}

void CopyLane::end() {
  queue_.write(&words_->state.place, placeOf(Waiting::Nothing, 0, 0, 0));
  queue_.flush();
}

}  // namespace tutti::executor::copy
