#pragma once

// What a Communicator is made of. One thread issues its operations; they run one after the other,
// in the order of their numbers, on whichever thread drives them; the control plane's monitor
// thread listens, inquires after ranks that are waited for, and decides failures.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include <tutti/communicator.h>

#include "collectives/chooser.h"
#include "src/base/clock.h"
#include "src/bootstrap/control_plane.h"
#include "src/communicator/children.h"
#include "src/communicator/gpu.h"
#include "src/communicator/links.h"
#include "src/communicator/membership.h"
#include "src/communicator/network_watch.h"
#include "src/communicator/recorder.h"
#include "src/communicator/settings.h"
#include "src/communicator/world.h"
#include "src/executor/exchange_operation.h"
#include "src/executor/host_operation.h"
#include "transports/connection.h"

namespace tutti::communicator {

class OperationWork;
struct GpuWork;

/// What a rank says in a split; no communicator is made for it where the color is negative.
struct SplitVote {
  int64_t color, key;
};

/// A choice with this rank's programs, cached.
struct ReadyChoice {
  executor::ReadyPlan plan;
  std::unique_ptr<executor::ReadyPlan> mapped;
  std::unique_ptr<plan::Asking> asking;  ///< null where the caller has named an algorithm
  uint64_t hash = 0;
  double microseconds = 0;  ///< predicted, staged
};

/// A rank that has been waited for this long is asked what it is doing, and again.
constexpr int64_t kInquireAfterNs = 100'000'000, kInquireAgainNs = 1'000'000'000;

/// A choice with this rank's program on the GPU.
struct GpuChoice {
  plan::PlanSpec spec;
  GpuPlan* plan = nullptr;  ///< of `gpuPlans`
  uint64_t hash = 0;
  uint32_t slices = 1;
};

}  // namespace tutti::communicator

namespace tutti {

struct Communicator::Impl final : bootstrap::ControlListener,
                                  executor::WindowResolver,
                                  std::enable_shared_from_this<Impl> {
  using World = communicator::World;
  using Settings = communicator::Settings;
  using Membership = communicator::Membership;

  /// What a rank that is inquired after is doing.
  enum class Activity : uint8_t { Nothing, Collective, Exchange };
  enum class Message : uint32_t {
    Hello,
    Ready,
    Inquiry,
    Status,
    Failure,
    Goodbye,
    View,
    Decision,
    Gpu
  };
  /// Why a rank tells another what it calls: it waits for that one or has got its message, on the
  /// host; it has got somebody's message on a GPU; or waits there, it does not know for whom.
  enum class Inquirer : uint8_t { Host, Gpu, GpuWaiting };
  /// A rank's answer to an inquiry of the host.
  struct Status {
    uint64_t sequence = 0;  ///< of the collective that it is in, or of the last that it has done
    Activity activity = Activity::Nothing;
    int32_t waitingFor = -1;
    bool operator==(const Status&) const = default;
    std::string describe() const;
  };
  /// What is known of another rank.
  struct Peer {
    bool lost = false;
    bool left = false;
    std::optional<uint64_t> stoppedAfter;  // operations it issued before it left or shrank
    std::optional<bootstrap::ControlMessage> hello;
    std::vector<communicator::ToldGpuState> gpu;  // in turn
    std::optional<uint64_t> leftGpuAfter;         // collectives there, when it has left
    int ready = 0;                                ///< how often it has said so
    Status status;                                // its last answer to an inquiry
    bool answers = false;                         // it has answered one
    std::pair<uint64_t, uint64_t>
        waited;  // in which operation, with how many bytes, at that answer
    std::map<std::pair<uint32_t, uint32_t>, std::set<int>> views;  // dead, by vote and round
  };

  Impl(Membership who, const Settings& settings);
  ~Impl() override;

  // Set-up (setup.cc). connect() is collective over the members and needs them to run at the same
  // time; connectLocal() joins all ranks of one process in one call.
  void connect(base::Deadline deadline);
  /// Instead of connect(), where this rank's settings cannot be: throws `why` with this rank's
  /// name, and so does connect() of all others.
  [[noreturn]] void refuse(const Error& why);
  /// Throws InvalidArgument or Unsupported for a device or an algorithm that there is not.
  void requirePossible();
  /// Until `arrived` holds for all others. Throws Timeout, or PeerLost for one that has left.
  void awaitAll(const char* what, base::Deadline deadline,
                const std::function<bool(const Peer&)>& arrived);
  /// All ranks have said so many times that they are ready.
  void awaitReadiness(int times, base::Deadline deadline);
  /// Throws what has become of the peer, else `why`.
  [[noreturn]] void cannotConnect(int peer, const Error& why);
  static void connectLocal(const std::vector<std::shared_ptr<Impl>>& ranks,
                           std::vector<std::unique_ptr<transports::Endpoint>> endpoints);

  // Set-up between hosts (setup_hosts.cc): that addresses lead there, and that messages get there.
  void reachHosts(base::Deadline deadline);
  void visitHosts(base::Deadline deadline);
  void crossHosts(base::Deadline deadline);

  // Set-up of GPUs (gpu_setup.cc). Where they cannot be joined, `noGpu` says why on all ranks.
  void makeGpu();
  void joinGpus(const std::vector<transports::Address>& addresses, base::Deadline deadline);
  static void joinLocalGpus(const std::vector<std::shared_ptr<Impl>>& ranks);
  void finishGpu();
  /// Whether nothing that was launched touches anything any more. To be asked again and again.
  bool gpuIsQuiet();
  /// The same, and that no stream has any of it left; but calls that were taken back stay there
  /// where something else keeps a stream busy.
  bool gpuHasLeftStreams();
  void awaitReplays();
  void awaitGpuPeers();
  void parkGpu();
  /// By the peers' addresses for this rank. False where not all ranks have one.
  bool connectGpu(const std::vector<transports::Address>& addresses);
  void connectGpuTo(int peer, const std::function<void()>& connect);
  bool gpuIsFaultless();
  void tellGpuState(size_t round, base::Deadline deadline);

  // Operations (operations.cc).
  struct Call {
    communicator::CallFacts facts;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    double scalar = 1.0;
    const void* scalarAt = nullptr;
    Reduction reduction = {};                                          // instead of facts.op
    std::shared_ptr<const std::vector<plan::Block>> blocks = nullptr;  // where they differ
  };
  // Each throws InvalidArgument when the call cannot be right.
  communicator::OperationWork makeCollective(Call call);
  /// A call whose blocks have sizes and places of their own, in elements; no places: one after
  /// another.
  communicator::OperationWork makeUneven(Call call, std::span<const size_t> counts,
                                         std::span<const size_t> offsets);
  /// Given its sends and receives.
  communicator::OperationWork makeExchange(executor::Exchange transfers);
  /// Numbers it and drives it here or hands it to a stream, or leaves that to the group that is
  /// open.
  void start(communicator::OperationWork work, StreamRef stream);
  /// Checked arguments as transfers; `what` is "send" or "recv".
  executor::Transfer transfer(const char* what, const void* data, uint64_t count, DataType type,
                              int peer) const;
  std::vector<executor::Transfer> blocks(const char* what, const void* data,
                                         std::span<const size_t> counts,
                                         std::span<const size_t> offsets, DataType type) const;
  communicator::ReadyChoice& choose(const communicator::CallFacts& facts);

  // Parts of it, connected (communicator.cc).
  /// Those of this rank's color, or null.
  std::shared_ptr<Impl> splitBy(const std::vector<communicator::SplitVote>& votes);
  std::shared_ptr<Impl> subset(std::span<const int> ranks, const Settings& its);

  // Calls on the GPU (gpu_work.cc).
  /// Throws Unsupported where there is no way to make the call there.
  communicator::GpuWork gpuWork(const communicator::OperationWork& work, StreamRef stream);
  const communicator::GpuChoice& chooseOnGpu(const communicator::CallFacts& facts);
  /// Records and counts what is about to be launched.
  /// Behind so many calls of this rank in the same launch.
  void launching(const communicator::GpuWork& work, uint64_t behind);
  /// Looks after launches that have given up, or cannot end. The monitor's.
  void watchGpu();
  void watchLeaversOnGpu();
  void watchWaitsOnGpu();
  /// Until nothing runs on the GPU. Throws the failure.
  void awaitGpu();
  /// Until nothing that was launched touches the callers' memory.
  void awaitIdleGpu();

  // Failure (failure.cc).
  void fail(const Error& error, bool tellOthers);
  void tellFailure(const Error& error);
  /// Before this rank does what would end the others' calls for a lesser reason: whatever failed
  /// here first, others may not have heard of it. False where nothing failed, but was aborted.
  bool passOnFailure();
  std::string recorded(size_t lines) const;  ///< the operations that are kept, at most so many
  void throwIfFailed() const;
  [[noreturn]] void throwFailure() const;
  void requireUsable() const;  ///< not failed, not forked, not from inside its own operation
  void requireOutsideReduction() const;
  void inquire(int peer, uint64_t operation);
  void inquire(int peer, const communicator::Recorder::Entry& entry, Inquirer by);
  void inquireOnGpu(uint64_t ended);
  std::optional<communicator::Recorder::Entry> callOf(const communicator::GpuFailure& found) const;
  /// A rank that left or shrinks makes collective `sequence` impossible.
  std::optional<Error> stoppedBefore(uint64_t sequence) const;
  /// A rank of these that left or shrinks, or -1.
  int stoppedAmong(const std::function<bool(int)>& ranks) const;
  void failByLeaver(int peer, const communicator::Recorder::Entry& entry);
  void timeoutOperation(uint64_t operation);

  // Shrinking (shrink.cc). The communicator of those that the survivors agree on, not connected.
  std::shared_ptr<Impl> shrunk(base::Deadline deadline);
  /// Until no operation runs on this rank any more. Throws Timeout.
  void awaitQuiet(base::Deadline deadline);
  std::vector<int> agreeOnSurvivors(base::Deadline deadline);
  class Vote;

  // executor::WindowResolver
  executor::WindowPlace locate(const void* data, uint64_t bytes) const override;
  std::shared_ptr<std::byte> resolve(int peer, executor::WindowPlace place) const override;

  // bootstrap::ControlListener: the monitor's thread (failure.cc).
  void onMessage(int from, bootstrap::ControlMessage message) override;
  void onPeerLost(int peer, const std::string& how) override;
  void onPeerLeft(int peer) override;
  void onTick() override;

  Status status() const;
  void compareWaits(int peer, const Status& theirs);
  void send(int peer, Message type, base::Bytes payload,
            std::vector<base::FileDescriptor> descriptors = {});

  const Membership who;
  Settings settings;  // constant once connected
  const int size;
  communicator::Links links;
  communicator::Children children;
  base::SteadyClock clock;

  // Operations: collectives, which all ranks number alike, and exchanges, which they do not. `turn`
  // is the number among both of the one that may run; only its thread touches `operation`,
  // `exchange` and `scratch`. `active` while it does.
  std::atomic<uint64_t> issued{0};
  std::atomic<uint64_t> turn{1};
  std::atomic<uint64_t> collectivesIssued{0};
  std::atomic<uint64_t> collectivesDone{0};
  uint64_t exchangesIssued = 0;  // the issuing thread's
  std::atomic<bool> active{false};
  executor::HostOperation operation;
  executor::ExchangeOperation exchange;
  std::vector<std::byte> scratch;
  communicator::Recorder recorder;
  std::unordered_map<uint64_t, std::unique_ptr<communicator::ReadyChoice>> choices;
  // On the GPU, by the issuing thread; `gpu` is set before anybody else hears of this rank.
  std::unique_ptr<communicator::GpuSide> gpu;
  std::string noGpu;  // why calls on the GPU cannot be made; empty where they can
  communicator::Recorder gpuRecorder;
  std::atomic<uint64_t> gpuCollectives{0};  // launched
  uint64_t gpuExchanges = 0;
  bool gpuBuffersAreMapped = false;                     // by calls since it was waited for
  std::atomic<bool> gpuWasCaptured{false};              // a call of this rank, at any time
  std::map<std::pair<int, int>, uint64_t> gpuMessages;  // launched, by sender and receiver
  std::unordered_map<uint64_t, communicator::GpuChoice> gpuChoices;
  std::unordered_map<uint64_t, std::unique_ptr<communicator::GpuPlan>> gpuPlans;  // by spec's hash

  // Failure and set-up state, shared with the monitor's thread.
  std::atomic<bool> failed{false};
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::optional<Error> failure;
  int64_t failedAtNs = 0;                // by `clock`
  std::atomic<int64_t> gpuQuietAtNs{0};  // likewise, while calls were left on streams; 0: not yet
  std::vector<Peer> peers;
  std::atomic<bool> someoneStopped{false};
  std::map<uint32_t, std::set<int>> decisions;  // dead, by vote
  bool listening = false;                       // on the control plane's channel

  // Shrinking, by the thread that calls it. What was proposed to a vote stays proposed: a call that
  // timed out is taken up where it was by the next.
  struct Voting {
    uint32_t vote = 0;  // counts decisions
    uint32_t round = 0;
    std::optional<std::set<int>> proposed;  // in this round
    std::set<int> dead;                     // known so far; only grows
  };
  Voting voting;

  // The monitor's own.
  uint64_t watchedOperation = 0;
  int watchedPeer = -1;
  communicator::NetworkWatch networkWatch, gpuNetworkWatch;
  int64_t lastInquiryNs = 0;
  bool straggling = false;
  int64_t gpuFailedNs = 0;
  int gpuLeaver = -1;
  std::optional<uint64_t> gpuWaited;  // launches that had ended before the one that is under way
  int64_t gpuWaitedSinceNs = 0, gpuInquiryNs = 0;
  int gpuAsked = 0;  // the last, as a distance
  int64_t gpuLeaverSinceNs = 0;
};

}  // namespace tutti
