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
    : who_(who), settings_(settings), links_(links), failure_(failure), windows_(who) {}

void HostBackend::requireOutsideReduction() const {
  if (operation_.combinesHere())
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

ReadyChoice& HostBackend::choose(const CallFacts& facts) {
  auto& slot = choices_[choiceKey(facts, who_.size())];
  if (slot) return *slot;
  plan::CollectiveRequest request = requestOf(facts, who_.size(), settings_.deterministic,
                                              settings_.algorithm, links_.topology().hostOf);
  request.mappable = true;
  const collectives::Choice choice =
      collectives::choose(request, links_.topology(), settings_.tuning);
  const int rank = who_.rank();
  auto ready = std::make_unique<ReadyChoice>();
  ready->plan = executor::zeroCopyPlan(choice.spec, collectives::build(choice.spec, rank), rank);
  ready->hash = choice.spec.hash();
  ready->microseconds = choice.candidates.front().microseconds;
  if (choice.mapped && who_.size() > 1) {
    ready->mapped = std::make_unique<executor::ReadyPlan>(
        executor::ReadyPlan{*choice.mapped, collectives::build(*choice.mapped, rank)});
    ready->hash ^= std::rotl(choice.mapped->hash(), 1);
    if (request.algorithm.empty())
      ready->mappedBufferPolicy = std::make_unique<plan::MappedBufferPolicy>();
  }
  base::log(LogLevel::Debug, who_.self(), ": for blocks of up to ", request.blockBytes(),
            " bytes: ", choice.reason);
  slot = std::move(ready);
  return *slot;
}

ReadyChoice& HostBackend::choose(Call& call) {
  call.facts.deterministic = settings_.deterministic;
  ReadyChoice& choice = choose(call.facts);
  call.facts.algorithm = choice.plan.spec.algorithm;
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

void HostBackend::activate() {
  active_.store(true, std::memory_order_seq_cst);
  if (failure_.hasFailedInOrder()) failure_.throwIfFailed();
}

executor::Launch HostBackend::launchOf(const Recorder::Entry& entry, Call&& call,
                                       ReadyChoice& choice) {
  return {.rank = who_.rank(),
          .size = who_.size(),
          .plan = &choice.plan,
          .mapped = choice.mapped.get(),
          .mappedBufferPolicy = choice.mappedBufferPolicy.get(),
          .windows = &windows_,
          .endpoint = links_.endpoint(),
          .in = call.in,
          .out = call.out,
          .count = blockCount(call.facts, who_.size()),
          .blocks = std::move(call.blocks),
          .type = call.facts.type,
          .op = call.facts.op,
          .scalar = call.scalar,
          .scalarAt = call.scalarAt,
          .reduction = std::move(call.reduction),
          .canonical = settings_.deterministic,
          .callHash = call.facts.fingerprint(),
          .operation = static_cast<uint32_t>(entry.sequence),
          .scratch = &scratch_};
}

executor::Operation& HostBackend::begin(const Recorder::Entry& entry, Call&& call,
                                        ReadyChoice& choice) {
  recorder_.running(entry);
  operation_.begin(launchOf(entry, std::move(call), choice));
  return operation_;
}

executor::Operation& HostBackend::begin(const Recorder::Entry& entry,
                                        executor::Exchange&& exchange) {
  recorder_.running(entry);
  exchange_.begin(std::move(exchange));
  return exchange_;
}

void HostBackend::noteWaiting(uint64_t number, const executor::Operation& operation,
                              int64_t sinceNs) {
  recorder_.waiting(number, operation.waitingFor(), operation.bytesReceived(), sinceNs);
}

void HostBackend::complete(const Recorder::Entry& entry) {
  if (entry.collective()) collectivesDone_.store(entry.sequence, std::memory_order_release);
  end(entry.number, CallPhase::Done, true);
  turn_.store(entry.number + 1, std::memory_order_release);
}

void HostBackend::end(uint64_t number, CallPhase phase, bool ran) {
  recorder_.finished(number, phase);
  if (ran) active_.store(false, std::memory_order_release);
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
