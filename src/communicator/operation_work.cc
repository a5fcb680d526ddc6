#include "src/communicator/operation_work.h"

#include <algorithm>
#include <exception>
#include <new>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/wait_checks.h"
#include "src/communicator/failure/failure_state.h"
#include "src/communicator/failure/watchdog.h"
#include "src/communicator/gpu/gpu_backend.h"
#include "src/communicator/host/host_backend.h"
#include "src/communicator/links.h"
#include "src/communicator/messages.h"
#include "src/communicator/peers.h"

namespace tutti::communicator {

using executor::CollectiveCall;

namespace {

// Polls between two looks at the clock.
constexpr uint32_t kWatchEvery = 128;
// How long the two sides of a mismatch may take to exchange their descriptions.
constexpr int64_t kDisputeNs = 2'000'000'000;

int64_t nowNs() { return base::SteadyClock().nowNs(); }

}  // namespace

OperationWork::OperationWork(std::shared_ptr<const Owners> owners, CollectiveCall call,
                             ReadyChoice& choice, CallPlacement placement)
    : owners_(std::move(owners)),
      call_(std::move(call)),
      choice_(&choice),
      placement_(placement),
      entry_{.facts = std::get<CollectiveCall>(call_).facts} {}

OperationWork::OperationWork(std::shared_ptr<const Owners> owners, executor::Exchange exchange,
                             CallPlacement placement)
    : owners_(std::move(owners)),
      call_(std::move(exchange)),
      placement_(placement),
      entry_{.facts = ExchangeFacts()} {}

OperationWork OperationWork::copy() const {
  if (const auto* exchange = std::get_if<executor::Exchange>(&call_))
    return OperationWork(owners_, *exchange, placement_);
  return OperationWork(owners_, std::get<CollectiveCall>(call_), *choice_, placement_);
}

GpuWork OperationWork::onGpu(StreamRef stream) const {
  const std::shared_ptr<GpuBackend> gpu(owners_, &owners_->gpu);
  return std::visit([&](const auto& call) { return gpu->prepare(gpu, call, placement_, stream); },
                    call_);
}

OperationWork::~OperationWork() {
  if (!owners_ || entry_.number == 0 || ended_) return;
  if (owners_->who.inForkedChild()) return;
  try {
    owners_->failure.fail(Error(ErrorCode::Aborted, base::message(owners_->who.self(), " dropped ",
                                                                  entry_.nameAndCall())),
                          true);
  } catch (...) {  // no memory to tell why
    owners_->failure.failWithoutReason();
  }
  base::Backoff backoff(false);
  while (!isRecalled()) backoff.idle();
  endFailed();
}

bool OperationWork::isRecalled() const {
  transports::Endpoint* const endpoint = owners_->links.endpoint();
  return !running_ || !endpoint || endpoint->cancelZeroCopy();
}

void OperationWork::absorb(OperationWork later) {
  auto& mine = std::get<executor::Exchange>(call_);
  auto& its = std::get<executor::Exchange>(later.call_);
  mine.sends.insert(mine.sends.end(), its.sends.begin(), its.sends.end());
  mine.receives.insert(mine.receives.end(), its.receives.begin(), its.receives.end());
}

void OperationWork::requireComplete() const {
  if (!isExchange()) return;
  const auto& exchange = std::get<executor::Exchange>(call_);
  requireSelfMatches(exchange, owners_->who.rank());
  requireDisjoint(exchange, owners_->who.rank());
}

void OperationWork::takeNumber() {
  if (const auto* exchange = std::get_if<executor::Exchange>(&call_))
    entry_.facts = exchange->facts();
  owners_->host.number(entry_);
}

std::unique_ptr<KnownCall> OperationWork::know() const {
  return owners_->host.know(std::get<CollectiveCall>(call_).facts, *choice_);
}

void OperationWork::resume(const Recorder::Entry& entry, const KnownCall& stopped) {
  resume(entry);
  stopped_ = &stopped;
}

// Where it is not the turn of this operation, the one that drives the other is woken.
base::SleepPlace* OperationWork::sleepPlace() {
  transports::Endpoint* const endpoint = owners_->links.endpoint();
  return endpoint && owners_->host.isTurnOf(entry_.number) ? endpoint->sleepPlace() : nullptr;
}

bool OperationWork::sharesCores() const { return owners_->links.sharesCores(); }

double OperationWork::predictedMicroseconds() const {
  HostBackend& host = owners_->host;
  if (const auto* call = std::get_if<CollectiveCall>(&call_))
    return host.predictedMicroseconds(*call, *choice_);
  return host.predictedMicroseconds(std::get<executor::Exchange>(call_).facts());
}

void OperationWork::begin() {
  HostBackend& host = owners_->host;
  running_ = true;
  host.activate(!isExchange());
  if (auto* call = std::get_if<CollectiveCall>(&call_))
    operation_ = stopped_ ? &host.resume(entry_, std::move(*call), *stopped_)
                          : &host.begin(entry_, std::move(*call), *choice_);
  else
    operation_ = &host.begin(entry_, std::move(std::get<executor::Exchange>(call_)));
}

void OperationWork::endFailed() {
  ended_ = true;
  owners_->host.fail(entry_.number, running_);
}

device::Work::Status OperationWork::poll() {
  if (leaving_) return leave();
  try {
    return step();
  } catch (const Error& e) {
    failedBy(e.code(), e.what());
  } catch (const std::bad_alloc& e) {
    failedBy(ErrorCode::OutOfMemory, e.what());
  } catch (const std::exception& e) {
    failedBy(ErrorCode::Internal, e.what());
  }
  return leave();
}

// Most often what was thrown is the failure itself.
void OperationWork::failedBy(ErrorCode code, const char* what) {
  if (!owners_->failure.hasFailed())
    owners_->failure.fail(
        Error(code, base::message(owners_->who.self(), ": ", entry_.nameAndCall(), ": ", what)),
        true);
  leaving_ = true;
}

// The caller gets his memory back when nobody reads it any more.
device::Work::Status OperationWork::leave() {
  if (!isRecalled()) return Status::Idle;
  endFailed();
  owners_->failure.throwFailure();
}

device::Work::Status OperationWork::step() {
  owners_->failure.throwIfFailed();
  if (!owners_->host.isTurnOf(entry_.number)) return Status::Idle;
  if (dispute_) return disputed(*dispute_);
  if (break_) return broken(*break_);
  executor::Poll result;
  try {
    if (!operation_) begin();
    result = operation_->poll();
  } catch (const transports::ConnectionLost& lost) {
    noteBreak(lost);
    return Status::Idle;
  } catch (const executor::MismatchSeen& seen) {
    inquire(seen);
    disputedNs_ = nowNs();
    dispute_ = seen;
    return Status::Idle;
  }
  switch (result) {
    case executor::Poll::Done:
      ended_ = true;
      owners_->host.complete(entry_);
      return Status::Done;
    case executor::Poll::Moved: idlePolls_ = 0; return Status::Moved;
    case executor::Poll::Idle: break;
  }
  bool moved = false;  // also for other communicators
  try {
    transports::Endpoint* const endpoint = owners_->links.endpoint();
    moved = endpoint && endpoint->progress();
  } catch (const transports::ConnectionLost& lost) {
    noteBreak(lost);
  }
  if (++idlePolls_ % kWatchEvery == 0) watch();
  return moved ? Status::Moved : Status::Idle;
}

void OperationWork::watch() {
  const int64_t now = nowNs();
  if (waitingSinceNs_ == 0) waitingSinceNs_ = now;
  owners_->host.noteWaiting(entry_.number, *operation_, waitingSinceNs_);
  if (isExchange() && owners_->peers.someoneStopped()) watchLeavers();
  if (now - waitingSinceNs_ > timeoutMs() * 1'000'000) timeOut();
}

int64_t OperationWork::timeoutMs() const { return limitMs_.value_or(owners_->settings.timeoutMs); }

void OperationWork::timeOut() {
  const Membership& who = owners_->who;
  const auto entry = owners_->host.recorder().find(entry_.number);
  const int peer = entry ? entry->waitingFor : -1;
  std::string text = base::message(who.self(), ": ", entry ? entry->nameAndCall() : "an operation",
                                   " did not complete within ", timeoutMs(), " ms");
  if (peer >= 0) {
    text += base::message("; it waits for ", who.name(peer), " with ", entry->bytesReceived,
                          " bytes received");
    if (const auto status = owners_->peers.status(peer))
      text += base::message(", which ", status->describe());
  }
  owners_->failure.fail(Error(ErrorCode::Timeout, text), true);
}

// What a rank sent before it left still arrives; what has not after a while never will.
void OperationWork::watchLeavers() {
  const int leaver =
      owners_->peers.stoppedAmong([&](int peer) { return owners_->host.needs(peer); });
  const int64_t now = nowNs();
  if (leaver != leaver_) leaverSinceNs_ = now;
  leaver_ = leaver;
  if (leaver < 0 || now - leaverSinceNs_ <= kLeaverNs) return;
  owners_->failure.fail(
      owners_->peers.absence(leaver, base::message("; ", owners_->who.self(), " still needs it in ",
                                                   entry_.nameAndCall())),
      true);
}

// A message of another call came from `seen.peer`. It has been asked for its side; its answer fails
// the communicator with both descriptions. Without an answer the operation fails with what is
// known.
device::Work::Status OperationWork::disputed(const executor::MismatchSeen& seen) {
  if (nowNs() - disputedNs_ < kDisputeNs) return Status::Idle;
  owners_->failure.fail(
      Error(ErrorCode::Mismatch,
            base::message("ranks disagree: ", owners_->who.self(), " is in ", entry_.name(), ": ",
                          entry_.describe(), "; ", owners_->who.name(seen.peer),
                          " sent a message of its operation ", seen.operation, " with fingerprint ",
                          seen.callHash, " instead of ", entry_.collective()->fingerprint())),
      true);
  return Status::Idle;
}

// About the earlier of the two operations: a rank that is ahead ended one in which they differ.
void OperationWork::inquire(const executor::MismatchSeen& seen) {
  const uint32_t behind = static_cast<uint32_t>(entry_.sequence) - seen.operation;
  std::optional<Recorder::Entry> earlier;
  if (static_cast<int32_t>(behind) > 0)
    earlier = owners_->host.recorder().findCollective(entry_.sequence - behind);
  owners_->messages.send(seen.peer, message::InquiryMessage::about(earlier ? *earlier : entry_,
                                                                   message::Inquirer::Host));
}

void OperationWork::noteBreak(const transports::ConnectionLost& lost) {
  brokenNs_ = nowNs();
  break_ = lost;
}

// A transport has lost its connection with a peer. Most often the control plane says in a moment
// what has become of that one; without that it is what is known.
device::Work::Status OperationWork::broken(const transports::ConnectionLost& lost) {
  if (operation_ && owners_->peers.someoneStopped() && owners_->peers.hasLeft(lost.peer())) {
    break_.reset();  // the end of one that has left is no loss; watch() finds whether it is needed
    watch();
    return Status::Idle;
  }
  if (nowNs() - brokenNs_ >= kBreakNs)
    owners_->failure.fail(
        Error(ErrorCode::PeerLost,
              base::message(owners_->who.name(lost.peer()), " was lost: ", lost.how(), "; ",
                            owners_->who.self(), " noticed during ", entry_.nameAndCall())),
        true);
  return Status::Idle;
}

void drive(device::Work& work, bool spinFirst) {
  base::Backoff backoff(spinFirst);
  base::WaitChecks checks;
  while (true) {
    switch (work.poll()) {
      case device::Work::Status::Done: return;
      case device::Work::Status::Moved: backoff.reset(); break;
      case device::Work::Status::Idle: backoff.idle(work.sleepPlace()); break;
    }
    checks.polled();
  }
}

bool pollAll(std::vector<std::unique_ptr<device::Work>>& works, std::exception_ptr& first) {
  bool moved = false;
  std::erase_if(works, [&](const auto& work) {
    try {
      const auto status = work->poll();
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
