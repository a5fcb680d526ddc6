#pragma once

// HostBackend: a communicator's operations on the host. It owns their numbers, whose turn it is,
// the executor, the choices of plans and the recorder.
//
// One thread issues: it alone chooses, numbers and touches `exchangesIssued_` and `choices_`.
// Operations are collectives, which all ranks number alike, and exchanges, which they do not. They
// run one after the other in the order of their numbers: the turn is the number among both of the
// one that may run, the one behind those that the executor has completed. The monitor's thread
// reads the numbers, all atomics, and the recorder, which has a lock of its own.
//
// activate() enters the executor before it looks at `failed_` of FailureState, both in sequentially
// consistent order, and shrink() looks at them the other way round: an operation either sees the
// failure or is waited for. What shrink() then tells of this rank counts the last collective.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "src/communicator/failure/failure_state.h"
#include "src/communicator/host/short_calls.h"
#include "src/communicator/links.h"
#include "src/communicator/membership.h"
#include "src/communicator/message_types.h"
#include "src/communicator/recorder.h"
#include "src/communicator/request.h"
#include "src/communicator/settings.h"
#include "src/executor/host/host_executor.h"
#include "src/plan/mapped_buffer_policy.h"

namespace tutti::communicator {

/// A choice with this rank's programs, cached.
struct ReadyChoice {
  std::unique_ptr<executor::PreparedPlan> staged, mapped, attached;  ///< the last two: or null
  /// Null where the caller has named an algorithm, or ordinary memory is read: the answer counts.
  std::unique_ptr<plan::MappedBufferPolicy> mappedBufferPolicy;
  uint64_t hash = 0;
  double stagedUs = 0, mappedUs = 0, attachedUs = 0;  ///< predicted
};

/// The windows of a communicator's members. As constant as its Membership.
class MemberWindows final : public executor::WindowResolver {
 public:
  explicit MemberWindows(const Membership& who) : who_(who) {}
  executor::WindowPlace locate(const void* data, uint64_t bytes) const override;
  std::shared_ptr<std::byte> resolve(int peer, executor::WindowPlace place,
                                     uint64_t bytes) const override;

 private:
  const Membership& who_;
};

class HostBackend {
 public:
  HostBackend(const Membership& who, const Settings& settings, const RankLinks& links,
              const FailureState& failure);

  /// Throws from inside a reduction of the caller's own that an operation of this one has called.
  void requireOutsideReduction() const;
  /// Neither failed, nor forked, nor called from inside its own operation.
  void requireUsable() const;

  // The issuing thread's.
  /// Throws Unsupported or InvalidArgument where there is no plan.
  ReadyChoice& choose(const CallFacts& facts, const executor::CallWishes& wishes = {});
  /// Completes a checked call by what is chosen for it.
  ReadyChoice& choose(executor::CollectiveCall& call);
  /// To the other ranks. Choices that were made before the tuning table was known are forgotten.
  void connected();
  double predictedMicroseconds(const ExchangeFacts& facts) const;
  /// With buffers like the call's on all ranks.
  double predictedMicroseconds(const executor::CollectiveCall& call,
                               const ReadyChoice& choice) const;
  /// Gives the entry its numbers, and records it.
  void number(Recorder::Entry& entry);
  /// What became of a call that may be short.
  struct ShortRun {
    const KnownCall* known = nullptr;  ///< null: it is not short, and nothing has happened
    bool isDone = false;               ///< else it has its number, and is to be driven on
  };
  /// What is the same in calls like this one, which has been chosen for; null where they are not
  /// short.
  std::unique_ptr<KnownCall> know(const CallFacts& facts, ReadyChoice& choice);
  /// Runs the call now, if it is short and nothing is ahead of it.
  ShortRun runShort(const ShortCall& call);
  /// The same of one that is known, and fits.
  ShortRun runShort(const KnownCall& known, const ShortCall& call);
  struct ExchangeRest {
    executor::Exchange exchange;
    Recorder::Entry entry;
  };
  /// The same of a few sends and receives. False: `rest` is to be driven on; without one, nothing
  /// has happened.
  bool runShort(std::span<const executor::Transfer> sends,
                std::span<const executor::Transfer> receives, std::optional<ExchangeRest>& rest);
  /// How many have run short to their end.
  uint64_t shortRuns() const { return shortRuns_; }
  /// Of the call that was issued last, a short one.
  Recorder::Entry lastIssued(const KnownCall& known) const;

  // The thread's that drives the operation.
  bool isTurnOf(uint64_t number) const { return turn() == number; }
  /// Before begin(). Throws the failure; fail() is told that it ran then, too.
  void activate(bool isCollective);
  executor::Operation& begin(const Recorder::Entry& entry, executor::CollectiveCall&& call,
                             ReadyChoice& choice);
  /// Of a short call that has stopped.
  executor::Operation& resume(const Recorder::Entry& entry, executor::CollectiveCall&& call,
                              const KnownCall& known);
  executor::Operation& begin(const Recorder::Entry& entry, executor::Exchange&& exchange);
  /// That the one that runs has to wait, since then.
  void noteWaiting(uint64_t number, const executor::Operation& operation, int64_t sinceNs);
  /// Of the exchange that runs.
  bool needs(int peer) const { return executor_.needs(peer); }
  /// It has done what it was to do; the next one may run.
  void complete(const Recorder::Entry& entry);
  /// It has not. `ran`: activate() was called.
  void fail(uint64_t number, bool ran);

  // Anybody's.
  const Recorder& recorder() const { return recorder_; }
  uint64_t turn() const { return executor_.completed() + 1; }
  uint64_t collectivesDone() const { return *executor_.collectivesEnded(); }
  /// After the failure was set; see above.
  bool isActive() { return executor_.isRunning(); }
  /// What its turn is; nothing between operations.
  std::optional<Recorder::Entry> current() const { return recorder_.find(turn()); }
  /// As other ranks are told.
  message::StatusMessage status() const;
  /// "during operation 3, ...", or "after operation 2".
  std::string where() const;
  /// Of the last collective. After it.
  uint64_t bytesReceived() const { return executor_.bytesReceived(); }
  const plan::PlanSpec* lastSpec() const { return executor_.lastSpec(); }

 private:
  executor::HostRank place() const;
  /// Of a call that was seen before.
  void learn(const CallFacts& facts, ReadyChoice& choice);

  const Membership& who_;
  const Settings& settings_;
  const RankLinks& links_;
  const FailureState& failure_;
  const MemberWindows windows_;
  std::atomic<uint64_t> issued_{0};
  std::atomic<uint64_t> collectivesIssued_{0};
  uint64_t exchangesIssued_ = 0;
  executor::HostExecutor executor_;
  Recorder recorder_;
  WishNumbers wishNumbers_;
  std::unordered_map<uint64_t, std::unique_ptr<ReadyChoice>> choices_;
  ShortCalls shortCalls_;
  uint64_t lastKnown_ = 0;
  static constexpr uint64_t kOfExchanges = UINT64_MAX;
  uint64_t series_ = 0;      // the number of the known call of which the recorder's is; 0: of none
  ExchangeFacts exchanged_;  // what each of a series of exchanges is
  uint64_t nextOfSeries_ = 0;  // the number of its next operation
  executor::Patience patience_{true};
  uint64_t shortRuns_ = 0;
};

}  // namespace tutti::communicator
