#include "src/communicator/operation_work.h"

#include <algorithm>
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
// How long what a rank sent before it left may be under way.
constexpr int64_t kLeaverNs = 200'000'000;
// How long after a transport's connection the control plane may take to say what became of the
// peer.
constexpr int64_t kBreakNs = 250'000'000;

}  // namespace

OperationWork::OperationWork(std::shared_ptr<Communicator::Impl> communicator,
                             const CallFacts& facts, executor::Launch launch, Placement placement)
    : communicator_(std::move(communicator)),
      call_(std::move(launch)),
      placement_(placement),
      entry_{.facts = facts} {}

OperationWork::OperationWork(std::shared_ptr<Communicator::Impl> communicator,
                             executor::Exchange exchange, Placement placement)
    : communicator_(std::move(communicator)), call_(std::move(exchange)), placement_(placement) {}

OperationWork OperationWork::copy() const {
  if (const auto* exchange = std::get_if<executor::Exchange>(&call_))
    return OperationWork(communicator_, *exchange, placement_);
  return OperationWork(communicator_, *entry_.collective(), std::get<executor::Launch>(call_),
                       placement_);
}

OperationWork::~OperationWork() {
  if (!communicator_ || entry_.number == 0 || ended_) return;
  if (communicator_->who.inForkedChild()) return;
  try {
    communicator_->fail(
        Error(ErrorCode::Aborted, base::message(communicator_->who.self(), " dropped ",
                                                entry_.name(), ", ", entry_.describe())),
        true);
  } catch (...) {  // no memory to tell why
    communicator_->failed.store(true, std::memory_order_seq_cst);
  }
  base::Backoff backoff(false);
  while (running_ && communicator_->links.endpoint() && !communicator_->links.endpoint()->recall())
    backoff.idle();
  end(Phase::Failed);
}

ExchangeFacts factsOf(const executor::Exchange& exchange) {
  ExchangeFacts facts{.sends = exchange.sends.size(), .receives = exchange.receives.size()};
  for (const executor::Transfer& t : exchange.sends) facts.bytesSent += t.bytes;
  for (const executor::Transfer& t : exchange.receives) facts.bytesReceived += t.bytes;
  return facts;
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
  requireSelfMatches(exchange);
  requireDisjoint(exchange);
}

void OperationWork::takeNumber() {
  auto& c = *communicator_;
  entry_.number = c.issued.load(std::memory_order_relaxed) + 1;
  if (auto* launch = std::get_if<executor::Launch>(&call_)) {
    entry_.sequence = c.collectivesIssued.load(std::memory_order_relaxed) + 1;
    launch->operation = static_cast<uint32_t>(entry_.sequence);
    c.collectivesIssued.store(entry_.sequence, std::memory_order_release);
  } else {
    entry_.sequence = ++c.exchangesIssued;
    entry_.facts = factsOf(std::get<executor::Exchange>(call_));
  }
  c.recorder.issued(entry_);
  c.issued.store(entry_.number, std::memory_order_release);
}

bool OperationWork::sharesCores() const { return communicator_->links.topology().oversubscribed(); }

double OperationWork::predictedMicroseconds() const {
  auto& c = *communicator_;
  if (!isExchange()) return c.choose(*entry_.collective()).microseconds;
  const ExchangeFacts facts = factsOf(std::get<executor::Exchange>(call_));
  const auto most = [](uint64_t a, uint64_t b) { return static_cast<double>(std::max(a, b)); };
  constexpr double kBytesPerMicrosecond = 1000;  // of a gigabyte per second
  return most(facts.sends, facts.receives) * c.settings.tuning.messageMicroseconds +
         most(facts.bytesSent, facts.bytesReceived) /
             (c.settings.tuning.copyGigabytesPerSecond * kBytesPerMicrosecond);
}

// `active` is up before `failed` is looked at, and shrink() looks at them the other way round: an
// operation either sees the failure or is waited for.
void OperationWork::begin() {
  auto& c = *communicator_;
  running_ = true;
  c.active.store(true, std::memory_order_seq_cst);
  if (c.failed.load(std::memory_order_seq_cst)) c.throwIfFailed();
  c.recorder.running(entry_);
  if (auto* launch = std::get_if<executor::Launch>(&call_)) {
    c.operation.begin(std::move(*launch));
    operation_ = &c.operation;
  } else {
    c.exchange.begin(std::move(std::get<executor::Exchange>(call_)));
    operation_ = &c.exchange;
  }
}

void OperationWork::end(Phase phase) {
  auto& c = *communicator_;
  ended_ = true;
  c.recorder.finished(entry_.number, phase);
  if (running_) c.active.store(false, std::memory_order_release);
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
  auto& c = *communicator_;
  if (!c.failed.load(std::memory_order_acquire))
    c.fail(Error(code, base::message(c.who.self(), ": ", entry_.name(), ", ", entry_.describe(),
                                     ": ", what)),
           true);
  leaving_ = true;
}

// The caller gets his memory back when nobody reads it any more.
device::Work::Status OperationWork::leave() {
  auto& c = *communicator_;
  if (running_ && c.links.endpoint() && !c.links.endpoint()->recall()) return Status::Idle;
  end(Phase::Failed);
  c.throwFailure();
}

device::Work::Status OperationWork::step() {
  auto& c = *communicator_;
  c.throwIfFailed();
  if (c.turn.load(std::memory_order_acquire) != entry_.number) return Status::Idle;
  if (dispute_) return disputed(*dispute_);
  if (break_) return broken(*break_);
  executor::Poll result;
  try {
    if (!running_) begin();
    result = operation_->poll();
  } catch (const transports::ConnectionLost& lost) {
    noteBreak(lost);
    return Status::Idle;
  } catch (const executor::MismatchSeen& seen) {
    inquire(seen);
    disputedNs_ = c.clock.nowNs();
    dispute_ = seen;
    return Status::Idle;
  }
  switch (result) {
    case executor::Poll::Done:
      // Before `active` is down: what shrink() then tells of this rank counts it.
      if (!isExchange()) c.collectivesDone.store(entry_.sequence, std::memory_order_release);
      end(Phase::Done);
      c.turn.store(entry_.number + 1, std::memory_order_release);
      return Status::Done;
    case executor::Poll::Moved: idlePolls_ = 0; return Status::Moved;
    case executor::Poll::Idle: break;
  }
  bool moved = false;  // also for other communicators
  try {
    moved = c.links.endpoint() && c.links.endpoint()->progress();
  } catch (const transports::ConnectionLost& lost) {
    noteBreak(lost);
  }
  if (++idlePolls_ % kWatchEvery == 0) watch();
  return moved ? Status::Moved : Status::Idle;
}

void OperationWork::watch() {
  auto& c = *communicator_;
  const int64_t now = c.clock.nowNs();
  if (waitingSinceNs_ == 0) waitingSinceNs_ = now;
  c.recorder.waiting(entry_.number, operation_->waitingFor(), operation_->bytesReceived(),
                     waitingSinceNs_);
  if (isExchange() && c.someoneStopped.load(std::memory_order_acquire)) watchLeavers();
  if (now - waitingSinceNs_ > c.settings.timeoutMs * 1'000'000) c.timeoutOperation(entry_.number);
}

// What a rank sent before it left still arrives; what has not after a while never will.
void OperationWork::watchLeavers() {
  auto& c = *communicator_;
  const int leaver = c.stoppedAmong([&](int peer) { return c.exchange.needs(peer); });
  const int64_t now = c.clock.nowNs();
  if (leaver != leaver_) leaverSinceNs_ = now;
  leaver_ = leaver;
  if (leaver >= 0 && now - leaverSinceNs_ > kLeaverNs) c.failByLeaver(leaver, entry_);
}

// A message of another call came from `seen.peer`. It has been asked for its side; its answer fails
// the communicator with both descriptions. Without an answer the operation fails with what is
// known.
device::Work::Status OperationWork::disputed(const executor::MismatchSeen& seen) {
  auto& c = *communicator_;
  if (c.clock.nowNs() - disputedNs_ < kDisputeNs) return Status::Idle;
  c.fail(
      Error(ErrorCode::Mismatch,
            base::message("ranks disagree: ", c.who.self(), " is in ", entry_.name(), ": ",
                          entry_.describe(), "; ", c.who.name(seen.peer),
                          " sent a message of its operation ", seen.operation, " with fingerprint ",
                          seen.callHash, " instead of ", entry_.collective()->fingerprint())),
      true);
  return Status::Idle;
}

// About the earlier of the two operations: a rank that is ahead ended one in which they differ.
void OperationWork::inquire(const executor::MismatchSeen& seen) {
  auto& c = *communicator_;
  const uint32_t behind = static_cast<uint32_t>(entry_.sequence) - seen.operation;
  std::optional<Recorder::Entry> earlier;
  if (static_cast<int32_t>(behind) > 0)
    earlier = c.recorder.findCollective(entry_.sequence - behind);
  c.inquire(seen.peer, earlier ? *earlier : entry_, Communicator::Impl::Inquirer::Host);
}

void OperationWork::noteBreak(const transports::ConnectionLost& lost) {
  brokenNs_ = communicator_->clock.nowNs();
  break_ = lost;
}

// A transport has lost its connection with a peer. Most often the control plane says in a moment
// what has become of that one; without that it is what is known.
device::Work::Status OperationWork::broken(const transports::ConnectionLost& lost) {
  auto& c = *communicator_;
  if (c.clock.nowNs() - brokenNs_ >= kBreakNs)
    c.fail(
        Error(ErrorCode::PeerLost,
              base::message(c.who.name(lost.peer()), " was lost: ", lost.how(), "; ", c.who.self(),
                            " noticed during ", entry_.name(), ", ", entry_.describe())),
        true);
  return Status::Idle;
}

void drive(OperationWork& work, bool spinFirst) {
  base::Backoff backoff(spinFirst);
  while (true) {
    switch (work.poll()) {
      case device::Work::Status::Done: return;
      case device::Work::Status::Moved: backoff.reset(); break;
      case device::Work::Status::Idle: backoff.idle(); break;
    }
  }
}

bool pollAll(std::vector<OperationWork>& works, std::exception_ptr& first) {
  bool moved = false;
  std::erase_if(works, [&](OperationWork& work) {
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
