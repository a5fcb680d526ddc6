#include "src/communicator/host/host_backend.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/communicator/request.h"
#include "src/executor/host/short_exchange.h"

namespace tutti::communicator {
namespace {}  // namespace

executor::WindowPlace MemberWindows::locate(const void* data, uint64_t bytes) const {
  return who_.world()->windows->locate(data, bytes);
}

std::shared_ptr<std::byte> MemberWindows::resolve(int peer, executor::WindowPlace place,
                                                  uint64_t bytes) const {
  return who_.world()->windows->resolve(who_.inWorld(peer), place, bytes);
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
  ready->stagedUs = choice.microsecondsOf(choice.spec);
  if (choice.mapped && who_.size() > 1) {
    ready->mapped = prepare(*choice.mapped);
    ready->mappedUs = choice.microsecondsOf(*choice.mapped);
    ready->hash ^= std::rotl(choice.mapped->hash(), 1);
    if (choice.attached) {
      ready->attached = prepare(*choice.attached);
      ready->attachedUs = choice.microsecondsOf(*choice.attached);
      ready->hash ^= std::rotl(choice.attached->hash(), 2);
    } else if (request.algorithm.empty() && choice.mapped->algorithm != plan::Algorithm::File)
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
  if (call.wishes.isNone() && !call.blocks && !call.reduction) learn(call.facts, choice);
  return choice;
}

void HostBackend::connected() {
  shortCalls_.forget();
  choices_.clear();
  patience_ = executor::Patience(!links_.sharesCores());
}

// At the second call: many are made once.
void HostBackend::learn(const CallFacts& facts, ReadyChoice& choice) {
  const ShortKind kind{facts.collective, facts.type, facts.op, facts.root, facts.count};
  if (settings_.device.kind != DeviceKind::Host || shortCalls_.isSettled(kind)) return;
  if (!shortCalls_.hasSeen(kind)) return shortCalls_.see(kind);
  shortCalls_.settle(kind, know(facts, choice));
}

std::unique_ptr<KnownCall> HostBackend::know(const CallFacts& facts, ReadyChoice& choice) {
  const auto& plan = static_cast<const executor::HostPlan&>(*choice.staged);
  const bool mayStage = !choice.mapped || choice.mappedBufferPolicy;
  auto program = mayStage ? executor::ShortProgram::make(plan, facts, place()) : nullptr;
  if (!program) return nullptr;
  return std::make_unique<KnownCall>(++lastKnown_, facts, Caller{who_.rank(), who_.size()}, choice,
                                     std::move(program));
}

HostBackend::ShortRun HostBackend::runShort(const ShortCall& call) {
  const KnownCall* const known = shortCalls_.find(call.kind);
  return known && known->fits(call) ? runShort(*known, call) : ShortRun();
}

HostBackend::ShortRun HostBackend::runShort(const KnownCall& known, const ShortCall& call) {
  const uint64_t number = issued_.load(std::memory_order_relaxed) + 1;
  if (turn() != number) return {};
  if (plan::MappedBufferPolicy* const policy = known.choice().mappedBufferPolicy.get()) {
    if (policy->willAsk()) return {};
    policy->next();
  }
  const uint64_t sequence = collectivesIssued_.load(std::memory_order_relaxed) + 1;
  if (series_ == known.number() && nextOfSeries_ == number)
    recorder_.repeat();
  else
    recorder_.beginSeries({.number = number, .sequence = sequence, .facts = known.facts()});
  series_ = known.number();
  nextOfSeries_ = number + 1;
  collectivesIssued_.store(sequence, std::memory_order_release);
  issued_.store(number, std::memory_order_release);
  executor_.enter(true);
  ShortRun run{.known = &known};
  executor::ShortProgram& program = known.program();
  program.restart();
  if (!failure_.hasFailedInOrder())
    run.isDone = program.run(call.in, call.out, static_cast<uint32_t>(sequence), patience_);
  if (run.isDone) {
    recorder_.repeatDone();
    executor_.endShort(program);
    ++shortRuns_;
  }
  return run;
}

// It is recorded behind its run: nobody misses it before.
bool HostBackend::runShort(std::span<const executor::Transfer> sends,
                           std::span<const executor::Transfer> receives,
                           std::optional<ExchangeRest>& rest) {
  const executor::HostRank at = place();
  executor::ShortExchange exchange(at, sends, receives);
  const uint64_t number = issued_.load(std::memory_order_relaxed) + 1;
  if (turn() != number || !exchange.isShort()) return false;
  executor_.enter(false);
  const bool isDone = !failure_.hasFailedInOrder() && exchange.run(patience_);
  const ExchangeFacts facts = executor::factsOf(sends, receives);
  const uint64_t sequence = ++exchangesIssued_;
  if (isDone && series_ == kOfExchanges && nextOfSeries_ == number && facts == exchanged_) {
    recorder_.repeat();
    recorder_.repeatDone();
  } else {
    const Recorder::Entry entry{.number = number, .sequence = sequence, .facts = facts};
    isDone ? recorder_.beginSeries(entry) : recorder_.issued(entry);
    if (isDone)
      recorder_.repeatDone();
    else
      rest.emplace(exchange.rest(), entry);
  }
  series_ = isDone ? kOfExchanges : 0;
  nextOfSeries_ = number + 1;
  exchanged_ = facts;
  issued_.store(number, std::memory_order_release);
  if (isDone) {
    executor_.end(true);
    ++shortRuns_;
  }
  return isDone;
}

Recorder::Entry HostBackend::lastIssued(const KnownCall& known) const {
  return {.number = issued_.load(std::memory_order_relaxed),
          .sequence = collectivesIssued_.load(std::memory_order_relaxed),
          .facts = known.facts()};
}

double HostBackend::predictedMicroseconds(const ExchangeFacts& facts) const {
  const topology::Tuning& tuning = settings_.tuning;
  const auto most = [](uint64_t a, uint64_t b) { return static_cast<double>(std::max(a, b)); };
  constexpr double kBytesPerMicrosecond = 1000;  // of a gigabyte per second
  return most(facts.sends, facts.receives) * tuning.messageMicroseconds +
         most(facts.bytesSent, facts.bytesReceived) /
             (tuning.copyGigabytesPerSecond * kBytesPerMicrosecond);
}

double HostBackend::predictedMicroseconds(const executor::CollectiveCall& call,
                                          const ReadyChoice& choice) const {
  const executor::HostPlans plans{choice.staged.get(), choice.mapped.get(), choice.attached.get()};
  switch (executor::HostOperation::protocolOf(place(), plans, call)) {
    case plan::Protocol::Mapped: return choice.mappedUs;
    case plan::Protocol::Attached: return choice.attachedUs;
    default: return choice.stagedUs;
  }
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
  return {who_.rank(), who_.size(), links_.endpoint(), &windows_, links_.attached()};
}

executor::Operation& HostBackend::begin(const Recorder::Entry& entry,
                                        executor::CollectiveCall&& call, ReadyChoice& choice) {
  plan::MappedBufferPolicy* const policy = choice.mappedBufferPolicy.get();
  const bool asks = choice.mapped && (!policy || policy->next());
  recorder_.running(entry);
  call.callHash = call.facts.fingerprint();
  call.operation = static_cast<uint32_t>(entry.sequence);
  return executor_.begin(place(),
                         {.staged = choice.staged.get(),
                          .mapped = asks ? choice.mapped.get() : nullptr,
                          .attached = choice.attached.get(),
                          .mappedBufferPolicy = policy},
                         std::move(call));
}

executor::Operation& HostBackend::resume(const Recorder::Entry& entry,
                                         executor::CollectiveCall&& call, const KnownCall& known) {
  recorder_.running(entry);
  call.callHash = call.facts.fingerprint();
  call.operation = static_cast<uint32_t>(entry.sequence);
  return executor_.begin(place(), {.staged = &known.program().plan()}, std::move(call),
                         &known.program());
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
