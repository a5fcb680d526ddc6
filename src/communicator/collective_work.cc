#include "src/communicator/collective_work.h"

#include <exception>
#include <new>

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

CollectiveWork::CollectiveWork(std::shared_ptr<Communicator::Impl> communicator,
                               const CallFacts& facts, const executor::Launch& launch)
    : communicator_(std::move(communicator)), facts_(facts), launch_(launch) {}

CollectiveWork::~CollectiveWork() {
  if (!communicator_ || number_ == 0 || ended_) return;
  if (communicator_->inForkedChild()) return;
  try {
    communicator_->fail(
        Error(ErrorCode::Aborted, base::message(communicator_->self(), " dropped operation ",
                                                number_, ", ", facts_.describe())),
        true);
  } catch (...) {  // no memory to tell why
    communicator_->failed.store(true, std::memory_order_seq_cst);
  }
  end(Phase::Failed);
}

void CollectiveWork::takeNumber() {
  auto& c = *communicator_;
  number_ = c.issued.load(std::memory_order_relaxed) + 1;
  launch_.operation = static_cast<uint32_t>(number_);
  c.recorder.issued(number_, facts_);
  c.issued.store(number_, std::memory_order_release);
}

bool CollectiveWork::sharesCores() const { return communicator_->topology.oversubscribed(); }

// `active` is up before `failed` is looked at, and shrink() looks at them the other way round: an
// operation either sees the failure or is waited for.
void CollectiveWork::begin() {
  auto& c = *communicator_;
  running_ = true;
  c.active.store(true, std::memory_order_seq_cst);
  if (c.failed.load(std::memory_order_seq_cst)) c.throwIfFailed();
  startedNs_ = c.clock.nowNs();
  c.recorder.running(number_, facts_, startedNs_);
  c.operation.begin(launch_);
}

void CollectiveWork::end(Phase phase) {
  auto& c = *communicator_;
  ended_ = true;
  c.recorder.finished(number_, phase);
  if (running_) c.active.store(false, std::memory_order_release);
}

device::Work::Status CollectiveWork::poll() {
  try {
    return step();
  } catch (const Error& e) {
    failedBy(e.code(), e.what());
  } catch (const std::bad_alloc& e) {
    failedBy(ErrorCode::OutOfMemory, e.what());
  } catch (const std::exception& e) {
    failedBy(ErrorCode::Internal, e.what());
  }
}

// Most often what was thrown is the failure itself.
void CollectiveWork::failedBy(ErrorCode code, const char* what) {
  auto& c = *communicator_;
  if (!c.failed.load(std::memory_order_acquire))
    c.fail(Error(code, base::message(c.self(), ": operation ", number_, ", ", facts_.describe(),
                                     ": ", what)),
           true);
  end(Phase::Failed);
  c.throwFailure();
}

device::Work::Status CollectiveWork::step() {
  auto& c = *communicator_;
  c.throwIfFailed();
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
      end(Phase::Done);
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
  c.fail(
      Error(ErrorCode::Mismatch,
            base::message("ranks disagree: ", c.self(), " is in operation ", number_, ": ",
                          facts_.describe(), "; ", c.name(seen.peer),
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
