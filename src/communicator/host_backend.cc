#include "src/communicator/host_backend.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/communicator/request.h"

namespace tutti::communicator {

executor::WindowPlace MemberWindows::locate(const void* data, uint64_t bytes) const {
  return who_.world()->windows->locate(data, bytes);
}

std::shared_ptr<std::byte> MemberWindows::resolve(int peer, executor::WindowPlace place) const {
  return who_.world()->windows->resolve(who_.inWorld(peer), place);
}

HostBackend::HostBackend(const Membership& who, const Settings& settings, const RankLinks& links,
                         const FailureState& failure)
    : who_(who),
      settings_(settings),
      links_(links),
      failure_(failure),
      windows_(who),
      executor_(who.rank()) {}

void HostBackend::requireOutsideReduction() const {
  if (executor_.combinesHere())
    base::fail(
        ErrorCode::InvalidArgument, who_.self(),
        ": a reduction of the caller's own calls the communicator whose operation it is part "
        "of, and would wait for itself");
}

void HostBackend::requireUsable() const {
  if (who_.inForkedChild()) throw Membership::usedAfterFork();
  requireOutsideReduction();
  failure_.throwIfFailed();
}

ReadyChoice& HostBackend::choose(const CallFacts& facts, const executor::CallWishes& wishes) {
  auto& slot = choices_[choiceKey(facts, who_.size(), wishNumbers_.numberOf(wishes))];
  if (slot) return *slot;
  const plan::CollectiveRequest request =
      requestOf(facts, settings_, wishes, links_.topology(), {});
  const collectives::AlgorithmFile* const file = settings_.algorithmFile.get();
  const collectives::Choice choice =
      collectives::choose(request, links_.topology(), settings_.tuning, file);
  const auto prepare = [&](const plan::PlanSpec& spec) {
    return executor_.prepare(spec, [&](int rank) { return collectives::build(spec, rank, file); });
  };
  auto ready = std::make_unique<ReadyChoice>();
  ready->staged = prepare(choice.spec);
  ready->hash = choice.spec.hash();
  ready->microseconds = choice.candidates.front().microseconds;
  if (choice.mapped && who_.size() > 1) {
    ready->mapped = prepare(*choice.mapped);
    ready->hash ^= std::rotl(choice.mapped->hash(), 1);
    if (request.algorithm.empty() && choice.mapped->algorithm != plan::Algorithm::File)
      ready->mappedBufferPolicy = std::make_unique<plan::MappedBufferPolicy>();
  }
  base::log(LogLevel::Debug, who_.self(), ": for blocks of up to ", request.blockBytes(),
            " bytes: ", choice.reason);
  slot = std::move(ready);
  return *slot;
}

ReadyChoice& HostBackend::choose(executor::CollectiveCall& call) {
  call.facts.deterministic = settings_.deterministic;
  ReadyChoice& choice = choose(call.facts, call.wishes);
  call.facts.algorithm = choice.staged->spec().algorithm;
  call.facts.planHash = choice.hash;
  return choice;
}

double HostBackend::predictedMicroseconds(const ExchangeFacts& facts) const {
  const topology::Tuning& tuning = settings_.tuning;
  const auto most = [](uint64_t a, uint64_t b) { return static_cast<double>(std::max(a, b)); };
  constexpr double kBytesPerMicrosecond = 1000;  // of a gigabyte per second
  return most(facts.sends, facts.receives) * tuning.messageMicroseconds +
         most(facts.bytesSent, facts.bytesReceived) /
             (tuning.copyGigabytesPerSecond * kBytesPerMicrosecond);
}

void HostBackend::number(Recorder::Entry& entry) {
  entry.number = issued_.load(std::memory_order_relaxed) + 1;
  if (entry.collective()) {
    entry.sequence = collectivesIssued_.load(std::memory_order_relaxed) + 1;
    collectivesIssued_.store(entry.sequence, std::memory_order_release);
  } else {
    entry.sequence = ++exchangesIssued_;
  }
  recorder_.issued(entry);
  issued_.store(entry.number, std::memory_order_release);
}

void HostBackend::activate(bool isCollective) {
  executor_.enter(isCollective);
  if (failure_.hasFailedInOrder()) failure_.throwIfFailed();
}

executor::HostRank HostBackend::place() const {
  return {who_.rank(), who_.size(), links_.endpoint(), &windows_};
}

executor::Operation& HostBackend::begin(const Recorder::Entry& entry,
                                        executor::CollectiveCall&& call, ReadyChoice& choice) {
  recorder_.running(entry);
  call.callHash = call.facts.fingerprint();
  call.operation = static_cast<uint32_t>(entry.sequence);
  return executor_.begin(place(),
                         {.staged = choice.staged.get(),
                          .mapped = choice.mapped.get(),
                          .mappedBufferPolicy = choice.mappedBufferPolicy.get()},
                         std::move(call));
}

executor::Operation& HostBackend::begin(const Recorder::Entry& entry,
                                        executor::Exchange&& exchange) {
  recorder_.running(entry);
  return executor_.begin(place(), std::move(exchange));
}

void HostBackend::noteWaiting(uint64_t number, const executor::Operation& operation,
                              int64_t sinceNs) {
  recorder_.waiting(number, operation.waitingFor(), operation.bytesReceived(), sinceNs);
}

void HostBackend::complete(const Recorder::Entry& entry) {
  recorder_.finished(entry.number, CallPhase::Done);
  executor_.end(true);
}

void HostBackend::fail(uint64_t number, bool ran) {
  recorder_.finished(number, CallPhase::Failed);
  if (ran) executor_.end(false);
}

message::StatusMessage HostBackend::status() const {
  using message::Activity;
  const uint64_t current = turn();
  const uint64_t done = collectivesDone();
  if (current > issued_.load(std::memory_order_acquire)) return {.sequence = done};
  const auto entry = recorder_.find(current);
  if (!entry) return {.sequence = done + 1, .activity = Activity::Collective};
  return {.sequence = entry->sequence,
          .activity = entry->collective() ? Activity::Collective : Activity::Exchange,
          .waitingFor = entry->phase == CallPhase::Running ? entry->waitingFor : -1};
}

std::string HostBackend::where() const {
  const uint64_t current = turn();
  const uint64_t last = issued_.load(std::memory_order_acquire);
  const auto entry = recorder_.find(current);
  if (current > last) return base::message("after operation ", collectivesDone());
  return entry ? "during " + entry->nameAndCall() : "during an operation";
}

}  // namespace tutti::communicator
