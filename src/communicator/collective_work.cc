#include "src/communicator/collective_work.h"

#include <exception>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/communicator/state.h"

namespace tutti::communicator {
namespace {

// Polls between two looks at the clock.
constexpr uint32_t kWatchEvery = 128;
// How long the two sides of a mismatch may take to exchange their descriptions.
constexpr int64_t kDisputeNs = 2'000'000'000;

}  // namespace

CollectiveWork::CollectiveWork(std::shared_ptr<Communicator::Impl> communicator, uint64_t number,
                               const executor::Launch& launch)
    : communicator_(std::move(communicator)), number_(number), launch_(launch) {}

bool CollectiveWork::sharesCores() const { return communicator_->topology.oversubscribed(); }

void CollectiveWork::begin() {
  running_ = true;
  startedNs_ = communicator_->clock.nowNs();
  communicator_->recorder.running(number_, startedNs_);
  communicator_->operation.begin(launch_);
}

device::Work::Status CollectiveWork::poll() {
  auto& c = *communicator_;
  if (c.failed.load(std::memory_order_acquire)) {
    c.recorder.finished(number_, Phase::Failed);
    c.throwIfFailed();
  }
  if (c.turn.load(std::memory_order_acquire) != number_) return Status::Idle;
  if (dispute_) return disputed(*dispute_);
  if (!running_) begin();
  executor::Poll result;
  try {
    result = c.operation.poll();
  } catch (const executor::MismatchSeen& seen) {
    c.inquire(seen.peer, number_);
    disputedNs_ = c.clock.nowNs();
    dispute_ = seen;
    return Status::Idle;
  }
  switch (result) {
    case executor::Poll::Done:
      c.recorder.finished(number_, Phase::Done);
      c.turn.store(number_ + 1, std::memory_order_release);
      return Status::Done;
    case executor::Poll::Moved: idlePolls_ = 0; return Status::Moved;
    case executor::Poll::Idle: break;
  }
  if (c.endpoint && c.endpoint->progress()) return Status::Moved;
  if (++idlePolls_ % kWatchEvery == 0) watch();
  return Status::Idle;
}

void CollectiveWork::watch() {
  auto& c = *communicator_;
  c.recorder.waiting(number_, c.operation.waitingFor(), c.operation.bytesReceived());
  if (c.clock.nowNs() - startedNs_ > c.settings.timeoutMs * 1'000'000) c.timeoutOperation(number_);
}

// A message of another call came from `seen.peer`. It has been asked for its side; its answer fails
// the communicator with both descriptions. Without an answer the operation fails with what is
// known.
device::Work::Status CollectiveWork::disputed(const executor::MismatchSeen& seen) {
  auto& c = *communicator_;
  if (c.clock.nowNs() - disputedNs_ < kDisputeNs) return Status::Idle;
  const auto mine = c.recorder.find(number_);
  c.fail(
      Error(ErrorCode::Mismatch,
            base::message("ranks disagree: ", c.self(), " is in operation ", number_, ": ",
                          mine ? mine->facts.describe() : "?", "; ", c.name(seen.peer),
                          " sent a message of its operation ", seen.operation, " with fingerprint ",
                          seen.callHash, " instead of ", launch_.callHash)),
      true);
  return Status::Idle;
}

void drive(CollectiveWork& work, bool spinFirst) {
  base::Backoff backoff(spinFirst);
  while (true) {
    switch (work.poll()) {
      case device::Work::Status::Done: return;
      case device::Work::Status::Moved: backoff.reset(); break;
      case device::Work::Status::Idle: backoff.idle(); break;
    }
  }
}

bool pollAll(std::vector<CollectiveWork>& works, std::exception_ptr& first) {
  bool moved = false;
  std::erase_if(works, [&](CollectiveWork& work) {
    try {
      const auto status = work.poll();
      moved |= status != device::Work::Status::Idle;
      return status == device::Work::Status::Done;
    } catch (...) {
      if (!first) first = std::current_exception();
      return true;
    }
  });
  return moved;
}

}  // namespace tutti::communicator
