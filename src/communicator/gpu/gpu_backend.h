#pragma once

// GpuBackend: a communicator's calls on its rank's GPU. It owns what joins the GPU with the peers',
// the rank that is ready to call there, the choices of plans, the recorder and the counts of what
// was launched. Without a GPU it has neither, and says why calls cannot be made.
//
// The join is set before anybody else hears of this rank, the rank when it is joined; they are
// taken away when the communicator ends. That is done under FailureState's lock, and so is what the
// monitor's thread and a failure do with them; the thread that issues reads them without the lock.
// That thread alone chooses, launches and waits; it owns `exchanges_`, `messages_`,
// `buffersAreMapped_`, `obstacle_` and the choices. The monitor's thread reads `collectives_`,
// `wasCaptured_` and the recorder, which has a lock of its own. `quietAtNs_` may be set by whoever
// asks whether streams are left.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/communicator/failure/failure_state.h"
#include "src/communicator/gpu/gpu_choices.h"
#include "src/communicator/gpu/gpu_join.h"
#include "src/communicator/gpu/gpu_rank.h"
#include "src/communicator/gpu/gpu_work.h"
#include "src/communicator/gpu/shared_streams.h"
#include "src/communicator/links.h"
#include "src/communicator/membership.h"
#include "src/communicator/peers.h"
#include "src/communicator/placement.h"
#include "src/communicator/recorder.h"
#include "src/communicator/settings.h"

namespace tutti::communicator {

class GpuBackend {
 public:
  GpuBackend(const Membership& who, const Settings& settings, const RankLinks& links,
             FailureState& failure);

  const Membership& who() const { return who_; }
  Device device() const { return settings_.device; }
  FailureState& failure() const { return failure_; }
  GpuJoin* join() const { return join_.get(); }  ///< or null
  /// Null where calls cannot be made.
  GpuRank* rank() const { return rank_.get(); }

  // Set-up's.
  void use(std::unique_ptr<GpuJoin> join);
  /// Calls cannot be made, for this reason: the same on all ranks.
  void refuseCalls(std::string why) { obstacle_ = std::move(why); }
  /// Whether the join's state has no faults; else calls are refused.
  bool isFaultless();
  /// Calls can be made from now on.
  void makeReady();

  // The issuing thread's.
  /// Throws Unsupported where there is no way to make the call there.
  GpuWork prepare(std::shared_ptr<GpuBackend> self, const executor::CollectiveCall& call,
                  const CallPlacement& placement, StreamRef stream);
  GpuWork prepare(std::shared_ptr<GpuBackend> self, const executor::Exchange& exchange,
                  const CallPlacement& placement, StreamRef stream);
  uint64_t collectivesLaunched() const { return collectives_.load(); }
  /// 0 where they are not counted.
  uint64_t collectivesEnded() const;
  uint64_t messagesLaunched(Line line) const;
  /// Of the last collective that was launched; null before the first.
  const plan::PlanSpec* lastSpec() const { return lastPlan_ ? &lastPlan_->spec() : nullptr; }
  /// Records and counts what is about to be launched, behind so many calls of this rank in the same
  /// launch. `isCaptured`: into a graph.
  void launching(const GpuWork& work, uint64_t behind, bool isCaptured);
  /// Until nothing runs on the GPU. Throws the failure.
  void await();
  /// Until nothing that was launched touches the callers' memory.
  void awaitIdle();

  // Whoever waits for the end of what was launched.
  /// Whether nothing that was launched touches anything any more. To be asked again and again.
  bool isQuiet();
  /// The same, and that no stream has any of it left; but calls that were taken back stay there
  /// where something else keeps a stream busy.
  bool hasLeftStreams();

  // The end of the communicator, in this order.
  void finish();
  /// When the others know that this rank leaves.
  void awaitPeers(const Peers& peers);
  void park();

  // The monitor's.
  /// Looks after what was launched. Why it has given up, if it has.
  std::optional<executor::ExecutorFailure> watch();
  /// A rank of those that have left without which something that is under way cannot end; or -1.
  int missedLeaver(const Peers& peers) const;
  /// As the executor has it.
  std::optional<uint64_t> underWay() const;
  const Recorder& recorder() const { return recorder_; }
  bool wasCaptured() const { return wasCaptured_.load(std::memory_order_acquire); }
  /// What was found about a call of the recorder's.
  std::optional<Recorder::Entry> callOf(const executor::ExecutorFailure& found) const;
  /// With the lock held.
  void abort();

 private:
  void requirePossible(const CallPlacement& placement, const Reduction* reduction) const;
  void awaitReplays();

  const Membership& who_;
  const Settings& settings_;
  const RankLinks& links_;
  FailureState& failure_;
  const base::SteadyClock clock_;
  std::unique_ptr<GpuRank> rank_;  // frees what both have, and so goes last
  std::unique_ptr<GpuJoin> join_;
  std::string obstacle_;  // empty: calls can be made
  GpuChoices choices_;
  Recorder recorder_;
  std::atomic<uint64_t> collectives_{0};  // launched
  uint64_t exchanges_ = 0;
  const executor::PreparedPlan* lastPlan_ = nullptr;  // of choices_
  std::map<Line, uint64_t> messages_;                 // launched
  bool buffersAreMapped_ = false;                     // by calls since it was waited for
  std::atomic<bool> wasCaptured_{false};              // a call of this rank, at any time
  std::atomic<int64_t> quietAtNs_{0};  // while calls were left on streams; 0: not yet
};

}  // namespace tutti::communicator
