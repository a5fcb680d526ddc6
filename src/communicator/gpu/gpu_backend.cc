#include "src/communicator/gpu/gpu_backend.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/communicator/gpu/gpu_parking.h"

namespace tutti::communicator {
namespace {

// Part of the fingerprint of a call on GPUs: never a call of the host.
constexpr uint64_t kOnGpu = 0x9b0d1c7e5a3f8642;
// How long replays may take behind the deadline of what is under way.
constexpr int64_t kReplaysEndNs = 5'000'000'000;
// How long what has failed may take to end when it has begun.
constexpr int64_t kFailedEndNs = 200'000'000;
// How long, when the rest was taken back, streams may take to come to their ends, which callers
// look at.
constexpr int64_t kStreamEndNs = 500'000'000;
// How long other ranks may take to leave.
constexpr std::chrono::seconds kPeersLeave{5};

std::string firstFault(const GpuState& state, int self) {
  const auto& [peer, fault] = *state.faults.begin();
  return peer == self ? fault : base::message("with rank ", peer, ": ", fault);
}

}  // namespace

GpuBackend::GpuBackend(const Membership& who, const Settings& settings, const RankLinks& links,
                       FailureState& failure)
    : who_(who),
      settings_(settings),
      links_(links),
      failure_(failure),
      choices_(who, settings, links) {}

void GpuBackend::use(std::unique_ptr<GpuJoin> join) {
  const auto lock = failure_.lock();
  join_ = std::move(join);
}

void GpuBackend::makeReady() {
  auto ready = join_->makeReady();
  const auto lock = failure_.lock();
  rank_ = std::move(ready);
  if (failure_.reason(lock)) rank_->abort();
}

bool GpuBackend::isFaultless() {
  const GpuState& state = join_->state();
  if (state.faults.empty()) return true;
  refuseCalls(firstFault(state, who_.rank()));
  return false;
}

void GpuBackend::requirePossible(const CallPlacement& placement, const Reduction* reduction) const {
  const auto refuse = [&](const std::string& why) {
    base::fail(ErrorCode::Unsupported, who_.self(), ": ", placement.call, " on ",
               toString(device()), ": ", why);
  };
  if (!obstacle_.empty()) refuse("the ranks' GPUs are not joined: " + obstacle_);
  if (reduction && *reduction)
    refuse("the reduction " + reduction->name() + " is a function of the host");
  failure_.throwIfFailed();
}

GpuWork GpuBackend::prepare(std::shared_ptr<GpuBackend> self, const executor::Exchange& exchange,
                            const CallPlacement& placement, StreamRef stream) {
  requirePossible(placement, nullptr);
  return {.backend = std::move(self), .operation = exchange, .stream = stream};
}

GpuWork GpuBackend::prepare(std::shared_ptr<GpuBackend> self, const executor::CollectiveCall& call,
                            const CallPlacement& placement, StreamRef stream) {
  requirePossible(placement, &call.reduction);
  const GpuChoice& choice = choices_.choose(call.facts, call.wishes, *rank_);
  executor::CollectiveCall chosen = call;
  chosen.facts.algorithm = choice.spec.algorithm;
  chosen.facts.planHash = choice.hash ^ kOnGpu;
  chosen.callHash = chosen.facts.fingerprint();
  if (choice.spec.mapped.any())
    for (const CallBuffer& buffer : placement.collective)
      rank_->allowPeers(buffer.data, buffer.bytes);
  return {.backend = std::move(self),
          .operation = std::move(chosen),
          .plan = choice.plan,
          .slices = choice.slices,
          .stream = stream};
}

uint64_t GpuBackend::collectivesEnded() const {
  const auto lock = failure_.lock();
  return rank_ ? rank_->executor().collectivesEnded().value_or(0) : 0;
}
uint64_t GpuBackend::messagesLaunched(Line line) const {
  const auto known = messages_.find(line);
  return known == messages_.end() ? 0 : known->second;
}

void GpuBackend::launching(const GpuWork& work, uint64_t behind, bool isCaptured) {
  if (isCaptured) wasCaptured_.store(true, std::memory_order_release);
  if (const auto* const exchange = work.exchange())
    for (const auto& [line, count] : messagesOf(*exchange, who_.rank())) messages_[line] += count;
  if (work.plan) lastPlan_ = work.plan;
  buffersAreMapped_ |= work.plan && work.plan->spec().mapped.any();
  recorder_.issued({.number = rank_->launched() + behind + 1,
                    .sequence = work.exchange() ? ++exchanges_ : collectives_.fetch_add(1) + 1,
                    .facts = work.facts(),
                    .phase = CallPhase::Launched});
}

void GpuBackend::awaitIdle() {
  for (base::Backoff backoff(!links_.sharesCores()); !hasLeftStreams();) backoff.idle();
  if (std::exchange(buffersAreMapped_, false) &&
      (rank_->executor().failure() || failure_.hasFailed()))
    rank_->awaitPeers();
}

// Also of a failure the caller hears only when no kernel touches his memory any more: it ends them.
// The monitor finds out what has gone wrong.
void GpuBackend::await() {
  awaitIdle();
  base::Backoff backoff(!links_.sharesCores());
  while (rank_->executor().failure()) {
    failure_.throwIfFailed();
    backoff.idle();
  }
  failure_.throwIfFailed();
}

// What was launched ends by itself, by its deadline or because the communicator has failed. Then it
// ends at once, but not before it has begun, for which it may wait as long as other work of the GPU
// takes.
bool GpuBackend::isQuiet() {
  if (!rank_ || rank_->isIdle()) return true;
  if (!failure_.hasFailed()) return false;
  auto lock = failure_.lock();
  const std::optional<Error> reason = failure_.reason(lock);
  const int64_t end = failure_.failedAtNs(lock) + kFailedEndNs;
  lock.unlock();
  if (clock_.nowNs() < end || !rank_->discard() || rank_->executor().isRunning()) return false;
  if (reason) failure_.tell(*reason);  // kernels that do not begin tell nobody
  return true;
}

bool GpuBackend::hasLeftStreams() {
  if (!isQuiet()) return false;
  if (!rank_ || rank_->isIdle()) return true;
  const int64_t now = clock_.nowNs();
  int64_t notYet = 0;
  quietAtNs_.compare_exchange_strong(notYet, now);
  return now >= quietAtNs_ + kStreamEndNs;
}

// What a graph replays ends by itself too, but no stream tells that it has.
void GpuBackend::awaitReplays() {
  const int64_t end = clock_.nowNs() + settings_.timeoutMs * 1'000'000 + kReplaysEndNs;
  for (base::Backoff backoff(false); rank_->hasGraphs() && rank_->executor().isRunning();
       backoff.idle()) {
    if (clock_.nowNs() < end) continue;
    base::log(LogLevel::Error, who_.self(), ": a replay on ", toString(device()),
              " has not ended by its deadline");
    return;
  }
}

void GpuBackend::finish() {
  if (!rank_) return;
  try {
    for (base::Backoff backoff(false); !isQuiet();) backoff.idle();
    awaitReplays();
    rank_->leave();
  } catch (const Error& error) {
    base::log(LogLevel::Error, who_.self(), " leaves ", toString(device()), ": ", error.what());
  }
  SharedStreams::ofProcess().forget(rank_->facts().group);
}

// Kernels of other processes may still write to this rank's memory: the last thing that they do is
// to give back what they have taken. Who does not leave in time is left with memory that this
// process does not free.
void GpuBackend::awaitPeers(const Peers& peers) {
  if (!join_ || !obstacle_.empty()) return;
  auto lock = failure_.lock();
  const auto allGone = [&] {
    for (int peer = 0; peer < who_.size(); ++peer)
      if (join_->isInOtherProcess(peer) && !peers.at(peer, lock).isGone()) return false;
    return true;
  };
  if (failure_.wait(lock, kPeersLeave, allGone)) return;
  base::log(LogLevel::Warning, who_.self(), ": other ranks do not leave; its memory of ",
            toString(device()), " is kept");
  // Where set-up has failed half-way, the join has it still.
  if (rank_)
    rank_.release();
  else
    join_.release();
}

// What is launched or replayed later finds memory and words that end it.
void GpuBackend::park() {
  if (!rank_ || GpuParking::mayGo(*rank_)) return;
  base::log(LogLevel::Info, who_.self(), " leaves while ",
            rank_->hasGraphs() ? "graphs of its calls are there, which are to be replayed no more"
                               : "a call of it, which has failed, waits for other work of the GPU",
            "; its memory of ", toString(device()), " is kept until that is over");
  auto lock = failure_.lock();
  auto rank = std::move(rank_);
  lock.unlock();
  GpuParking::ofProcess().add({std::move(rank), choices_.takePlans()});
}

std::optional<executor::ExecutorFailure> GpuBackend::watch() {
  const auto lock = failure_.lock();
  if (!rank_) return std::nullopt;
  rank_->executor().watch();
  return rank_->executor().failure();
}

int GpuBackend::missedLeaver(const Peers& peers) const {
  const auto lock = failure_.lock();
  if (!rank_) return -1;
  std::vector<std::optional<uint64_t>> leftAfter;
  for (int peer = 0; peer < who_.size(); ++peer)
    leftAfter.push_back(peers.at(peer, lock).leftGpuAfter);
  return rank_->executor().missedLeaver(leftAfter);
}

std::optional<uint64_t> GpuBackend::underWay() const {
  const auto lock = failure_.lock();
  return rank_ ? rank_->executor().underWay() : std::nullopt;
}

// Where calls were captured, the recorder counts these once, and the GPU their replays: then a
// collective is known by what it says in its messages.
std::optional<Recorder::Entry> GpuBackend::callOf(const executor::ExecutorFailure& found) const {
  if (!wasCaptured()) return recorder_.find(found.operation);
  std::optional<Recorder::Entry> last;
  for (const Recorder::Entry& known : recorder_.recent())
    if (known.collective() &&
        std::ranges::find(found.callHashes, known.collective()->fingerprint()) !=
            found.callHashes.end())
      last = known;
  return last;
}

void GpuBackend::abort() {
  if (join_) join_->abort();
  if (rank_) rank_->abort();
}

}  // namespace tutti::communicator
