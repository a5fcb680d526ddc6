#include "src/nccl/comm.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/check.h"
#include "src/communicator/inspection.h"
#include "src/nccl/debug_log.h"
#include "src/nccl/entry.h"

namespace tutti::nccl {
namespace {

// After abort() a call ends at its next look. One in a group with calls on other communicators
// waits for those too, and is not waited for.
constexpr std::chrono::seconds kLongestEnd{2};

}  // namespace

Comm::Comm(Facts facts) : facts_(std::move(facts)) {}
Comm::~Comm() = default;

void Comm::ready(Communicator communicator) {
  std::lock_guard lock(mutex_);
  if (!facts_.config.blocking && !stream_) stream_.emplace();
  communicator_.emplace(std::move(communicator));
  rank_ = communicator_->rank();
  size_ = communicator_->size();
  if (aborted_) communicator_->abort();
  --making_;
  changed_.notify_all();
}

void Comm::requireKnown() const {
  if (failure_) throw Error(*failure_);
  TUTTI_REQUIRE(size_ > 0, "the communicator is still being made");
}

int Comm::rank() const {
  const std::lock_guard lock(mutex_);
  requireKnown();
  return rank_;
}
int Comm::size() const {
  const std::lock_guard lock(mutex_);
  requireKnown();
  return size_;
}

std::stop_source Comm::stopOfMaking() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

int Comm::addressableRanks() const {
  const std::lock_guard lock(mutex_);
  requireKnown();
  return communicator_ ? communicator::Inspection::addressableRanks(*communicator_) : 1;
}

void Comm::failed(const Error& error) {
  std::lock_guard lock(mutex_);
  failure_ = error;
  --making_;
  changed_.notify_all();
}

// These are called with the lock.

void Comm::requireMade() const {
  TUTTI_REQUIRE(making_ == 0,
                "the communicator, or one from it, is still being made: "
                "ncclCommGetAsyncError says when it is not");
  if (failure_) throw Error(*failure_);
  if (aborted_) base::fail(ErrorCode::InvalidUsage, "the communicator was aborted");
  if (finalized_) base::fail(ErrorCode::InvalidUsage, "the communicator was finalized");
  if (suspended_)
    base::fail(ErrorCode::InvalidUsage,
               "the communicator is suspended: ncclCommResume() makes it usable");
}

void Comm::requireIdle() {
  requireMade();
  TUTTI_REQUIRE(!streamBusy(),
                "an earlier call on this communicator is still under way: "
                "ncclCommGetAsyncError says when it is not");
}

Comm::Use::Use(std::shared_ptr<Comm> comm) : comm_(std::move(comm)) {
  std::lock_guard lock(comm_->mutex_);
  comm_->requireIdle();
  if (comm_->revoked_) base::fail(ErrorCode::InvalidUsage, "the communicator was revoked");
  ++comm_->uses_;
}

Comm::Use::~Use() {
  if (!comm_) return;
  std::lock_guard lock(comm_->mutex_);
  --comm_->uses_;
  comm_->changed_.notify_all();
}

StreamRef Comm::Use::stream() const {
  return comm_->stream_ ? StreamRef(*comm_->stream_) : StreamRef();
}

void Comm::rethrow(std::span<const Use> uses, const Error& error) {
  for (const Use& use : uses) {
    if (error.code() != ErrorCode::Aborted) break;
    std::lock_guard lock(use.comm_->mutex_);
    if (use.comm_->aborted_ || use.comm_->revoked_)
      base::fail(ErrorCode::InvalidUsage, "ended by ",
                 use.comm_->aborted_ ? "ncclCommAbort" : "ncclCommRevoke", " on this rank");
  }
  throw Error(error);
}

bool Comm::blocking(std::span<const Use> uses) {
  return std::ranges::all_of(uses,
                             [](const Use& use) { return use.comm_->facts_.config.blocking; });
}

Comm::Parenthood::Parenthood(std::shared_ptr<Comm> comm, Operations operations)
    : comm_(std::move(comm)) {
  std::lock_guard lock(comm_->mutex_);
  if (operations == Operations::WillEnd) {
    comm_->requireMade();
  } else {
    comm_->requireIdle();
    const auto error = comm_->communicator_->asyncError();
    if (error && !comm_->revoked_) throw Error(*error);
  }
  ++comm_->making_;
}

Comm::Parenthood::~Parenthood() {
  std::lock_guard lock(comm_->mutex_);
  --comm_->making_;
  comm_->changed_.notify_all();
}

bool Comm::Parenthood::revoked() const {
  std::lock_guard lock(comm_->mutex_);
  return comm_->revoked_;
}

// Others are kept off by `making_` while its memory goes; abort(), which nothing keeps off, finds
// no communicator.
void Comm::suspend() {
  std::unique_lock lock(mutex_);
  requireIdle();
  if (revoked_) base::fail(ErrorCode::InvalidUsage, "the communicator was revoked");
  TUTTI_REQUIRE(uses_ == 0, "a call on this communicator is under way");
  if (const auto error = communicator_->asyncError()) throw Error(*error);
  suspendedBytes_ = bytesOf(*communicator_);
  Communicator leaving = std::move(*communicator_);
  communicator_.reset();
  ++making_;
  lock.unlock();
  std::optional<SuspendedCommunicator> suspended;
  try {
    suspended = std::move(leaving).suspend();
  } catch (...) {  // nothing of it has gone
    lock.lock();
    communicator_.emplace(std::move(leaving));
    if (aborted_) communicator_->abort();
    --making_;
    throw;
  }
  lock.lock();
  suspended_ = std::move(suspended);
  --making_;
  changed_.notify_all();
}

Comm::Resumption::Resumption(std::shared_ptr<Comm> comm) : comm_(std::move(comm)) {
  const std::lock_guard lock(comm_->mutex_);
  if (comm_->failure_) throw Error(*comm_->failure_);
  if (comm_->aborted_) base::fail(ErrorCode::InvalidUsage, "the communicator was aborted");
  if (!comm_->suspended_) base::fail(ErrorCode::InvalidUsage, "the communicator is not suspended");
  suspended_ = std::exchange(comm_->suspended_, std::nullopt);
  comm_->stop_ = {};
  ++comm_->making_;
}

Comm::Resumption::~Resumption() {
  if (!suspended_) return;
  const std::lock_guard lock(comm_->mutex_);
  if (comm_->failure_) return;  // who gave it up has told
  comm_->suspended_ = std::move(suspended_);
  --comm_->making_;
  comm_->changed_.notify_all();
}

Communicator Comm::Resumption::resume() {
  SuspendedCommunicator suspended = std::move(*suspended_);
  suspended_.reset();
  return suspended.resume(comm_->stopOfMaking().get_token());
}

bool Comm::isSuspended() const {
  const std::lock_guard lock(mutex_);
  return suspended_.has_value();
}

uint64_t Comm::bytesOf(const Communicator& communicator) const {
  const CommunicatorMemory memory = communicator.memory();
  return facts_.place.kind == DeviceKind::Host ? memory.host : memory.device;
}

uint64_t Comm::memoryBytes() const {
  const std::lock_guard lock(mutex_);
  requireKnown();
  return communicator_ ? bytesOf(*communicator_) : suspendedBytes_;
}

void Comm::finalize() {
  std::lock_guard lock(mutex_);
  TUTTI_REQUIRE(!finalized_, "the communicator was finalized before");
  requireMade();
  if (revoked_) base::fail(ErrorCode::InvalidUsage, "the communicator was revoked");
  finalized_ = true;
}

void Comm::drain() {
  std::unique_lock lock(mutex_);
  TUTTI_REQUIRE(making_ == 0,
                "the communicator, or one from it, is still being made: wait for it, "
                "or abort");
  if (!stream_) return;
  lock.unlock();
  try {
    stream_->synchronize();
  } catch (const Error&) {
    // Asked for before, or not wanted.
  }
}

// Nothing of the caller's is touched any more when it returns.
void Comm::stop(std::unique_lock<std::mutex>& lock) {
  stop_.request_stop();
  if (communicator_) communicator_->abort();
  changed_.wait_for(lock, kLongestEnd, [&] { return uses_ == 0; });
  const auto end = std::chrono::steady_clock::now() + kLongestEnd;
  const auto busy = [&] {
    return streamBusy() ||
           (communicator_ && !communicator::Inspection::gpuHasLeftStreams(*communicator_));
  };
  while (busy() && std::chrono::steady_clock::now() < end)
    changed_.wait_for(lock, std::chrono::milliseconds(1));
}

bool Comm::isAborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

void Comm::abort() {
  std::unique_lock lock(mutex_);
  aborted_ = true;
  stop(lock);
}

void Comm::revoke() {
  std::unique_lock lock(mutex_);
  requireMade();
  if (revoked_) base::fail(ErrorCode::InvalidUsage, "the communicator was revoked before");
  revoked_ = true;
  stop(lock);
}

/// A failure that a stream has is the communicator's too.
bool Comm::streamBusy() {
  try {
    return stream_ && !stream_->query();
  } catch (const Error&) {
    return streamBusy();  // it is said once
  }
}

ncclResult_t Comm::asyncResult() {
  std::lock_guard lock(mutex_);
  if (making_ > 0 || streamBusy()) return ncclInProgress;
  const auto result = [&](ErrorCode code) {  // of an abort it is the caller's own doing
    return aborted_ && code == ErrorCode::Aborted ? ncclInvalidUsage : resultOf(code);
  };
  if (failure_) return result(failure_->code());
  if (suspended_) return ncclSuccess;
  if (revoked_) return uses_ > 0 ? ncclInProgress : ncclSuccess;
  if (finalized_ && !communicator::Inspection::gpuHasLeftStreams(*communicator_))
    return ncclInProgress;
  const auto error = communicator_->asyncError();
  if (!error) return ncclSuccess;
  // Programs end their process for an error here. That others abort is none for who is about to.
  if (error->code() == ErrorCode::Aborted && !aborted_ &&
      !communicator::Inspection::hasFailedCalls(*communicator_))
    return ncclSuccess;
  if (!std::exchange(told_, true))
    DebugLog::ofProcess().failure(base::message("ncclCommGetAsyncError: ", error->what()));
  return result(error->code());
}

}  // namespace tutti::nccl
