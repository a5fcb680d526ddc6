#pragma once

// The host executor: runs one rank's Program over connections and user memory, without ever
// blocking. poll() does what can be done now and returns. Where a plan for mapped buffers exists,
// the operation first exchanges entry records with all ranks and takes that plan when everybody's
// buffers allow it; a rank whose buffers do not tells the others, and goes on with the staged plan.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <tutti/reduction.h>
#include "src/executor/host/operation.h"
#include "src/executor/host/streaming_tuner.h"
#include "src/executor/host/zero_copy_sends.h"
#include "src/numbers/fold.h"
#include "src/plan/holders.h"
#include "src/plan/mapped_buffer_policy.h"
#include "src/plan/plan.h"
#include "transports/connection.h"

namespace tutti::executor {

/// A plan ready for launch on this rank; kept by the communicator for calls to come.
struct ReadyPlan {
  plan::PlanSpec spec;
  plan::Program program;
  /// What can be sent from the user's buffers, out of place and in place; empty: nothing is.
  plan::Holders holders = {}, holdersInPlace = {};
};
/// One that sends from the user's buffers what it can.
ReadyPlan zeroCopyPlan(const plan::PlanSpec& spec, plan::Program program, int rank);

/// A place in memory that all ranks of the host can name.
struct WindowPlace {
  static constexpr uint64_t kNone = 0;        ///< not in a window: the mapped plan cannot be used
  static constexpr uint64_t kUnused = ~0ull;  ///< this rank's buffer is not touched by others
  uint64_t window = kNone;
  uint64_t offset = 0;
};

/// What a rank tells the others when it enters an operation that might run on mapped buffers.
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
  /// Where `peer`'s place lies in this process. It stays mapped for as long as the pointer is held,
  /// also when the peer dies or gives it back. Null when the peer has given it back already.
  virtual std::shared_ptr<std::byte> resolve(int peer, WindowPlace place) const = 0;
};

/// Everything one operation needs. Spans and pointers outlive it.
struct Launch {
  int rank = 0;
  int size = 1;
  const ReadyPlan* plan = nullptr;
  const ReadyPlan* mapped = nullptr;  ///< or null
  plan::MappedBufferPolicy* mappedBufferPolicy =
      nullptr;  ///< of calls alike; null: each asks for mapped buffers
  const WindowResolver* windows = nullptr;
  transports::Endpoint* endpoint = nullptr;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  uint64_t count = 0;
  std::shared_ptr<const std::vector<plan::Block>>
      blocks;  ///< where they differ; `count` is the mean
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  const void* scalarAt = nullptr;  ///< an element of `type` that begin() reads instead
  Reduction reduction = {};        ///< instead of op and scalar, if given
  bool canonical = false;          ///< deterministic mode: every fold rounds at each node
  uint32_t callHash = 0;   ///< same on all ranks that make the same call; without kExchangeBit
  uint32_t operation = 0;  ///< the communicator's operation number
  std::vector<std::byte>* scratch = nullptr;  ///< grown when needed and kept
};

/// One operation at a time; a communicator keeps one for all its calls.
class HostOperation final : public Operation {
 public:
  /// Starts over with a new launch; what was allocated before is kept. Not while one is in
  /// progress.
  void begin(Launch launch);

  /// Throws MismatchSeen, and Mismatch where a peer sends something that is of no collective.
  Poll poll() override;
  int waitingFor() const override { return waitingFor_; }
  uint64_t bytesReceived() const override { return bytesReceived_; }
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
  bool enter();  // true when something moved
  void prepareEntry();
  /// The last one: on one host plans use the first, whose slots data then goes through in the order
  /// in which they lie in the caches.
  int entryChannel() const { return launch_.endpoint->layout().channels - 1; }
  bool choose();  // between the plans; false when it must wait
  void start(const ReadyPlan& plan);
  bool startMapped();         // false when a peer has given its window back
  bool runLane(size_t lane);  // one step or piece; false when it must wait
  bool dependenciesDone(const plan::Step& step, const LaneState& state) const;
  bool channelsReady(const plan::Lane& lane, const plan::Step& step, const LaneState& state);
  bool execute(const plan::Lane& lane, const plan::Step& step, LaneState& state);
  const std::byte* holderOf(const plan::Step& step, size_t lane, const LaneState& state) const;
  bool isZeroCopy(const plan::Lane& lane, const plan::Port& port);
  uint64_t messageBytes(const plan::Port& port, int64_t round) const;
  void checkHeader(int peer, const transports::SlotHeader& header, uint64_t expectedBytes) const;
  std::byte* address(const plan::Lane& lane, const plan::Port& port, const Piece& piece,
                     bool asTarget);
  void foldPiece(const plan::Lane& lane, const plan::Step& step, const Piece& piece);
  bool foldData(const plan::Lane& lane, const plan::Step& step, LaneState& state);
  void advance(const plan::Lane& lane, LaneState& state);
  std::byte* base(const plan::Port& port) const;

  transports::SendRing& sendRing(int peer, int channel);
  transports::ReceiveRing& receiveRing(int peer, int channel);

  // Rings by channel and peer, looked up once: an endpoint is a virtual call away.
  std::vector<transports::SendRing*> sendRings_;
  std::vector<transports::ReceiveRing*> receiveRings_;
  Launch launch_;
  const ReadyPlan* active_ = nullptr;
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
  bool refused_ = false;  // by a record that is known
  std::vector<EntryRecord> entries_;
  std::vector<std::shared_ptr<std::byte>> peerIn_, peerOut_;  // held until the operation is done

  // Scratch vectors of execute(), kept to avoid allocation.
  std::vector<const void*> sources_;
  std::vector<void*> targets_;
  std::vector<double> premultiply_;
};

}  // namespace tutti::executor
