#include "src/communicator/one_sided/one_sided_work.h"

#include <new>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/communicator/failure/failure_state.h"
#include "src/communicator/failure/watchdog.h"
#include "src/communicator/host/host_backend.h"
#include "src/communicator/links.h"
#include "src/communicator/messages.h"
#include "src/communicator/one_sided/one_sided.h"
#include "src/communicator/operations.h"
#include "src/communicator/peers.h"
#include "src/communicator/settings.h"
#include "src/device/cuda.h"

namespace tutti::communicator {
namespace {

// Polls between two looks at the clock. Only a work looks for its stragglers, also where a core has
// so many ranks that a poll takes milliseconds.
constexpr uint32_t kLookEvery = 16;

}  // namespace

OneSidedWork::OneSidedWork(std::shared_ptr<const Owners> owners, OneSidedCall call,
                           CallPlacement placement)
    : owners_(std::move(owners)),
      call_(std::move(call)),
      placement_(placement),
      network_(owners_->settings.reconnectMs) {}

OneSidedWork::~OneSidedWork() {
  if (!progress_.listed || owners_->who.inForkedChild()) return;
  owners_->oneSided.forget(progress_);
  try {  // others may wait for what it has not done
    owners_->failure.fail(Error(ErrorCode::Aborted,
                                base::message(owners_->who.self(), " dropped ", call_.describe())),
                          true);
  } catch (...) {  // no memory to tell why
    owners_->failure.failWithoutReason();
  }
}

bool OneSidedWork::sharesCores() const { return owners_->links.sharesCores(); }

// As for a send of the same bytes, each.
double OneSidedWork::predictedMicroseconds() const {
  ExchangeFacts facts{.sends = call_.puts.size(), .receives = call_.waits.size()};
  for (const Put& put : call_.puts) facts.bytesSent += put.bytes;
  return owners_->host.predictedMicroseconds(facts);
}

device::Work::Status OneSidedWork::poll() {
  try {
    if (!progress_.begun) requirePeers();
    switch (owners_->oneSided.advance(call_, progress_)) {
      case executor::Poll::Done: return Status::Done;
      case executor::Poll::Moved: idlePolls_ = 0; return Status::Moved;
      case executor::Poll::Idle: break;
    }
    if (++idlePolls_ % kLookEvery == 0) watch();
    return Status::Idle;
  } catch (const Error& e) {
    owners_->failure.fail(
        Error(e.code(), base::message(owners_->who.self(), ": ", call_.describe(), ": ", e.what())),
        true);
  } catch (const std::bad_alloc& e) {
    owners_->failure.fail(Error(ErrorCode::OutOfMemory, call_.describe() + ": " + e.what()), true);
  }
  owners_->failure.throwFailure();
}

// What is put to a rank that has left, nobody would take or miss.
void OneSidedWork::requirePeers() const {
  for (const Put& put : call_.puts)
    if (hasStopped(put.peer)) return failWithout(put.peer);
}

bool OneSidedWork::hasStopped(int peer) const {
  return owners_->peers.someoneStopped() &&
         owners_->peers.stoppedAmong([peer](int rank) { return rank == peer; }) >= 0;
}

void OneSidedWork::failWithout(int peer) const {
  owners_->failure.fail(
      owners_->peers.absence(
          peer, base::message("; ", owners_->who.self(), " still needs it in ", call_.describe())),
      true);
}

namespace {

/// A call that a stream of a GPU waits for.
class GatedWork final : public device::Work {
 public:
  GatedWork(OneSidedWork work, std::shared_ptr<device::StreamGate> gate)
      : work_(std::move(work)), gate_(std::move(gate)) {}
  // Also of a call that has failed. Who waits for the stream may end the program then, so the
  // communicator is let go before.
  ~GatedWork() override {
    work_.letGo(gate_);
    gate_->open();
  }
  Status poll() override { return work_.poll(); }

 private:
  OneSidedWork work_;
  const std::shared_ptr<device::StreamGate> gate_;
};

}  // namespace

// A call on a stream keeps its communicator until the progress engine has it. One in a graph does
// not: what is replayed when the communicator is gone does nothing.
void OneSidedWork::enqueue(StreamRef stream) && {
  for (Put& put : call_.puts) {
    if (!put.toGpu) continue;
    device::copyOn(stream, put.direct.get(), put.data, put.bytes);
    put.stored = true;
  }
  const std::weak_ptr<const Owners> weak = owners_;
  std::shared_ptr<const Owners> strong;
  if (!device::isCaptured(stream)) strong = std::move(owners_);
  device::enqueueGate(stream, [weak, strong, call = std::move(call_), placement = placement_](
                                  std::shared_ptr<device::StreamGate> gate) mutable {
    std::shared_ptr<const Owners> owners = strong ? std::move(strong) : weak.lock();
    if (!owners) return gate->open();
    OneSided& oneSided = owners->oneSided;
    oneSided.post(
        std::make_unique<GatedWork>(OneSidedWork(std::move(owners), call, placement), gate));
  });
}

void OneSidedWork::letGo(const std::shared_ptr<device::StreamGate>& gate) {
  if (std::exchange(progress_.listed, false)) owners_->oneSided.forget(progress_);
  owners_->oneSided.opensAtItsEnd(gate);
  owners_.reset();
}

void OneSidedWork::watch() {
  const int peer = OneSided::waitsFor(call_, progress_);
  const int64_t now = base::SteadyClock().nowNs();
  if (peer < 0) return;
  watchLeavers(peer, now);
  if (now - progress_.sinceNs > owners_->settings.timeoutMs * 1'000'000)
    owners_->failure.fail(
        Error(ErrorCode::Timeout,
              base::message(owners_->who.self(), ": ", call_.describe(),
                            " did not complete within ", owners_->settings.timeoutMs,
                            " ms; it waits for ", owners_->who.name(peer), told(peer))),
        true);
  if (peer != owners_->who.rank()) ask(peer, now);
}

/// What the peer has answered when it was asked.
std::string OneSidedWork::told(int peer) const {
  const auto status = owners_->peers.status(peer);
  return status ? ", which " + status->describe() : "";
}

// What a rank sent before it left still arrives; what has not after a while never will.
void OneSidedWork::watchLeavers(int peer, int64_t nowNs) {
  if (leaverSinceNs_ == 0 || !hasStopped(peer)) {
    leaverSinceNs_ = nowNs;
    return;
  }
  if (nowNs - leaverSinceNs_ > kLeaverNs) failWithout(peer);
}

void OneSidedWork::lookAtNetwork(int peer, int64_t nowNs) {
  if (nowNs - lookedNs_ < kInquireAfterNs) return;
  lookedNs_ = nowNs;
  const auto cut = network_.look(*owners_->links.endpoint(), 1, {&peer, 1}, nowNs);
  if (cut) owners_->failure.fail(owners_->links.cut(*cut, call_.describe()), true);
}

void OneSidedWork::ask(int peer, int64_t nowNs) {
  const int64_t waitedNs = nowNs - progress_.sinceNs;
  if (waitedNs < kInquireAfterNs) return;
  lookAtNetwork(peer, nowNs);
  if (nowNs - askedNs_ >= kInquireAgainNs) {
    askedNs_ = nowNs;
    owners_->messages.send(peer, message::InquiryMessage{.by = message::Inquirer::Host});
  }
  const int64_t limitMs = owners_->settings.stragglerMs;
  if (straggling_ || limitMs <= 0 || waitedNs < limitMs * 1'000'000) return;
  straggling_ = true;
  base::log(LogLevel::Warning, owners_->who.self(), ": ", call_.describe(), " has waited ",
            waitedNs / 1'000'000, " ms; straggler: ", owners_->who.name(peer), told(peer));
}

void start(OneSidedWork work, StreamRef stream) {
  const bool onGpu = stream && runsOnGpu(work.placement(), work.owners().settings.device, stream);
  if (groupIsOpen()) return addToGroup(std::move(work), stream);
  if (onGpu) return startOnGpu(std::move(work), stream);
  if (stream)
    stream.host()->enqueue(std::make_unique<OneSidedWork>(std::move(work)));
  else
    drive(work, !work.sharesCores());
}

void startOnGpu(OneSidedWork work, StreamRef stream) { std::move(work).enqueue(stream); }

}  // namespace tutti::communicator
