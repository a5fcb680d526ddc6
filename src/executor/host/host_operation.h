#pragma once

// Runs one rank's Program over connections and user memory, without ever
// blocking. poll() does what can be done now and returns. Where a plan for mapped buffers exists,
// the operation first exchanges entry records with all ranks and takes that plan when everybody's
// buffers allow it. Else it takes one for buffers that others read where they are, if there is one
// and they can be read. A rank whose buffers allow neither tells the others, and goes on with the
// staged plan.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/executor/call.h"
#include "src/executor/executor.h"
#include "src/executor/host/attached_reads.h"
#include "src/executor/host/operation.h"
#include "src/executor/host/streaming_tuner.h"
#include "src/executor/host/zero_copy_sends.h"
#include "src/numbers/fold.h"
#include "src/plan/holders.h"
#include "src/plan/mapped_buffer_policy.h"
#include "src/plan/plan.h"
#include "transports/connection.h"

namespace tutti::executor {

class HostPlan final : public PreparedPlan {
 public:
  /// Where a plan moves data by slots, messages are sent from the user's buffers where that can be.
  HostPlan(const plan::PlanSpec& spec, plan::Program program, int rank);

  const plan::PlanSpec& spec() const override { return spec_; }
  const plan::Program& program() const { return program_; }
  /// What can be sent from the user's buffers, by lane and step; null: nothing is.
  const plan::Holders* holders(bool inPlace) const;

 private:
  plan::PlanSpec spec_;
  plan::Program program_;
  plan::Holders holders_, holdersInPlace_;
};

/// A place in memory that all ranks of the host can name.
struct WindowPlace {
  static constexpr uint64_t kNone = 0;        ///< neither in a window nor readable: plans stage it
  static constexpr uint64_t kUnused = ~0ull;  ///< this rank's buffer is not touched by others
  static constexpr uint64_t kMemory = ~0ull - 1;  ///< in no window: others can read it, and the
                                                  ///< offset is its address
  uint64_t window = kNone;
  uint64_t offset = 0;
};

/// What a rank tells the others when it enters an operation that might stage nothing.
struct EntryRecord {
  WindowPlace in, out;
};
static_assert(sizeof(EntryRecord) <= transports::kInlineBytes);

/// Finds buffers in windows, and other ranks' windows in this process.
class WindowResolver {
 public:
  virtual ~WindowResolver() = default;
  /// A published window of this rank holding all of [data, data + bytes), or kNone.
  virtual WindowPlace locate(const void* data, uint64_t bytes) const = 0;
  /// Where `peer`'s place, of so many bytes, lies in this process. It stays mapped for as long as
  /// the pointer is held, also when the peer dies or gives it back. Null when the peer has given it
  /// back already. Throws Internal where the window is smaller.
  virtual std::shared_ptr<std::byte> resolve(int peer, WindowPlace place, uint64_t bytes) const = 0;
};

/// What an operation runs on. The endpoint is the same in all operations of a rank.
struct HostRank {
  int rank = 0, size = 1;
  transports::Endpoint* endpoint = nullptr;  ///< null when alone
  const WindowResolver* windows = nullptr;   ///< for plans on mapped buffers
  bool attached = false;                     ///< the ranks of the host read each other's memory
};

/// The plans of a call, made by HostExecutor::prepare(). All outlive the call.
struct HostPlans {
  const PreparedPlan* staged = nullptr;
  /// For mapped buffers, if the ranks of this call ask each other for them; else null.
  const PreparedPlan* mapped = nullptr;
  /// For buffers that can be read, if that pays, too; else null. Not without `mapped`.
  const PreparedPlan* attached = nullptr;
  /// Of calls alike, to be told what was found; or null.
  plan::MappedBufferPolicy* mappedBufferPolicy = nullptr;
};

class ShortProgram;

/// One operation at a time; a communicator keeps one for all its calls.
class HostOperation final : public Operation {
 public:
  /// Starts over with another call; what was allocated before is kept. Not while one is in
  /// progress. An element at `scalarAt` is read now. `stopped`: has done some steps of the staged
  /// plan already.
  void begin(const HostRank& at, const HostPlans& plans, CollectiveCall&& call,
             const ShortProgram* stopped = nullptr);
  /// What such a call would run by, if the buffers of all ranks are like this one's.
  static plan::Protocol protocolOf(const HostRank& at, const HostPlans& plans,
                                   const CollectiveCall& call) {
    if (!plans.mapped) return plan::Protocol::Simple;
    HostOperation asked;
    asked.begin(at, plans, CollectiveCall(call));
    if (asked.mapped_) return plan::Protocol::Mapped;
    return asked.attached_ ? plan::Protocol::Attached : plan::Protocol::Simple;
  }
  /// A ShortProgram has run the whole of the plan in its place.
  void ranShort(const HostPlan& plan, uint64_t bytesReceived);

  /// Throws MismatchSeen, and Mismatch where a peer sends something that is of no collective.
  Poll poll() override;
  int waitingFor() const override { return waitingFor_; }
  uint64_t bytesReceived() const override { return bytesReceived_; }
  /// What runs, or ran last, where it is known by now; else null.
  const plan::PlanSpec* spec() const { return active_ ? &active_->spec() : nullptr; }
  /// True inside a reduction of the caller's own that this operation has called on this thread,
  /// also where other operations, which that one waits for, lie between.
  bool combinesHere() const;

 private:
  struct LaneState {
    int64_t round = 0;
    uint32_t step = 0;
    uint64_t pieceOffset = 0;  // bytes of the current step that are done (steps without channels)
  };

  /// A contiguous part of one chunk of a step's message.
  struct Piece {
    uint32_t chunk;  // counted from the port's first
    int64_t round;
    uint64_t messageBytes;  // of the whole step
    uint64_t chunkStart;    // of the chunk within the message
    uint64_t offset;        // of the piece within the chunk
    uint64_t bytes;
  };

  uint64_t bufferBytes(const plan::PlanSpec& spec, plan::Buffer buffer) const;
  bool isInPlace(const plan::PlanSpec& spec) const;
  /// False if an operation of a peer has failed whose mapped memory this one may have touched. What
  /// it read there may be what the peer's program wrote afterwards; the news is on its way.
  bool mappedCounts() {
    for (size_t peer = 0; peer < peerIn_.size(); ++peer) {
      const auto rank = static_cast<int>(peer);
      if ((!peerIn_[peer] && !peerOut_[peer]) || at_.endpoint->memoryCounts(rank)) continue;
      waitingFor_ = rank;
      return false;
    }
    return true;
  }
  bool enter();  // true when something moved
  void prepareEntry();
  WindowPlace placeOf(plan::Buffer buffer) const;
  void note(const EntryRecord& entry);
  /// The last one: on one host plans use the first, whose slots data then goes through in the order
  /// in which they lie in the caches.
  int entryChannel() const { return at_.endpoint->layout().channels - 1; }
  bool choose();  // between the plans; false when it must wait
  void start(const PreparedPlan& prepared, const ShortProgram* stopped = nullptr);
  bool startUnstaged(const PreparedPlan& plan);  // false when a peer has given its window back
  bool runLane(size_t lane);                     // one step or piece; false when it must wait
  bool dependenciesDone(const plan::Step& step, const LaneState& state) const;
  bool channelsReady(const plan::Lane& lane, const plan::Step& step, const LaneState& state);
  bool execute(const plan::Lane& lane, const plan::Step& step, LaneState& state);
  const std::byte* holderOf(const plan::Step& step, size_t lane, const LaneState& state) const;
  /// Where a message lies in one piece in memory of the rank's; null where it does not.
  std::byte* wholeOf(const plan::Port& port, int64_t round) const;
  /// The payload of the step's only source, which is awaited, may go to its only target, sends from
  /// there aside, if nothing is computed.
  void expectPayload(const plan::Lane& lane, const plan::Step& step, const LaneState& state,
                     const plan::Port& awaited, transports::ReceiveRing& ring);
  bool isZeroCopy(const plan::Lane& lane, const plan::Port& port);
  uint64_t messageBytes(const plan::Port& port, int64_t round) const;
  void checkHeader(int peer, const transports::SlotHeader& header, uint64_t expectedBytes) const;
  std::byte* address(const plan::Lane& lane, const plan::Port& port, const Piece& piece,
                     bool asTarget);
  bool isRead(const plan::Port& port) const;
  uint64_t readsOf(const plan::Step& step) const;
  uint64_t mostPieceBytes(const plan::Step& step) const;
  bool gather(const plan::Lane& lane, const plan::Step& step, const Piece& piece);
  bool foldPiece(const plan::Lane& lane, const plan::Step& step, const Piece& piece);
  bool foldData(const plan::Lane& lane, const plan::Step& step, LaneState& state);
  void advance(const plan::Lane& lane, LaneState& state);
  std::byte* base(const plan::Port& port) const;

  transports::SendRing& sendRing(int peer, int channel);
  transports::ReceiveRing& receiveRing(int peer, int channel);

  // Rings by channel and peer, looked up once: an endpoint is a virtual call away.
  std::vector<transports::SendRing*> sendRings_;
  std::vector<transports::ReceiveRing*> receiveRings_;
  HostRank at_;
  HostPlans plans_;
  CollectiveCall call_;
  uint64_t count_ = 0;              // elements of a block; where they differ, of the mean one
  std::vector<std::byte> scratch_;  // grown when needed and kept
  const HostPlan* active_ = nullptr;
  std::optional<plan::PlanShape> shape_;
  std::vector<LaneState> lanes_;
  size_t lanesLeft_ = 0;
  int waitingFor_ = -1;
  uint64_t bytesReceived_ = 0;
  uint64_t userBytes_ = 0;  // of one block
  StreamingTuner tuner_;
  bool streaming_ = false;
  uint64_t storeNs_ = 0;                    // spent storing to user memory
  const plan::Holders* holders_ = nullptr;  // where something may be sent zero-copy
  const std::byte* holder_ = nullptr;  // of the message of the step that is executed, if in memory
  ZeroCopySends zeroCopySends_;

  // Entry exchange. A record is its rank's first message on its channel.
  std::vector<bool> entrySent_, entryReceived_;
  int entriesToSend_ = 0, entriesToReceive_ = 0;
  bool mapped_ = false, attached_ = false;  // what all records that are known allow
  std::vector<EntryRecord> entries_;
  std::vector<std::shared_ptr<std::byte>> peerIn_, peerOut_;  // held until the operation is done
  AttachedReads reads_;

  // Scratch vectors of execute(), kept to avoid allocation.
  std::vector<const void*> sources_;
  std::vector<void*> targets_;
  std::vector<double> premultiply_;
};

}  // namespace tutti::executor
