#pragma once

// A communicator's part on its rank's GPU: joined with the peers' GPUs at set-up, programs in
// device memory, launches. No header of CUDA is needed here: with the toolkit it is in cuda/,
// without it gpu_absent.cc answers.
//
// Set-up: every rank makes its side and sends each peer its address(); connect() of each; then all
// ranks tell each other their state(), hear() what the others say, probe, tell each other once
// more, and makeReady(). A fault anywhere keeps all ranks from working on GPUs, and all know of it.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/device.h>
#include <tutti/error.h>
#include <tutti/types.h>

#include "src/base/bytes.h"
#include "src/executor/host/exchange_operation.h"
#include "src/plan/plan.h"
#include "src/plan/waves.h"
#include "transports/connection.h"

namespace tutti::communicator {

/// What a rank tells the others of its GPU: how many blocks it has there, and what is in the way of
/// working with whom; under its own number what keeps it from working with anybody.
struct GpuState {
  uint32_t blocks = 0;
  bool byCopies = false;              ///< as GpuSide::byCopies()
  base::Bytes address = {};           ///< of GpuSide::rejoin()
  std::map<int, std::string> faults;  ///< by peer

  /// Keeps the first fault with a peer.
  void add(int peer, const std::string& fault) { faults.try_emplace(peer, fault); }
  base::Bytes write() const;
  /// Throws Refused for what no rank of `size` sends.
  static GpuState read(const base::Bytes& bytes, int size);
};

/// As it comes to another rank.
struct ToldGpuState {
  GpuState state;
  std::vector<base::FileDescriptor> descriptors = {};
};

/// A rank's program in the memory of its GPU.
class GpuPlan {
 public:
  virtual ~GpuPlan() = default;
};

/// One collective on one rank. Buffers are memory that its GPU can address.
struct GpuCall {
  const GpuPlan* plan = nullptr;
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t count = 0;                                                ///< elements of a block
  std::shared_ptr<const std::vector<plan::Block>> blocks = nullptr;  ///< where they differ
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  const void* scalarAt = nullptr;  ///< an element of `type` that is read instead, on the stream
  bool deterministic = false;
  uint32_t callHash = 0;
  uint64_t bytes = 0;   ///< of the larger buffer
  uint32_t slices = 1;  ///< parts of every chunk, side by side; the same on all ranks
  bool isMapped = false;
};

/// Why launches have given up.
struct GpuFailure {
  ErrorCode code = ErrorCode::Internal;
  std::string text;
  int peer = -1;  ///< waited for, or lost, or who disagrees
  /// Its number among this rank's calls that have ended, from 1; 0: between them. Captured calls
  /// end as often as they are replayed.
  uint64_t operation = 0;
  std::optional<uint64_t> bytesArrived = {};  ///< of it, where the GPU tells
  std::vector<uint32_t> callHashes =
      {};  ///< of a collective, where the GPU tells: it has one of them
};

/// What tells the streams that ranks of one communicator may share, and captures, apart for the
/// life of the program.
struct StreamIdentity {
  uint64_t stream = 0;
  uint64_t capture = 0;  ///< 0: it is not captured
  auto operator<=>(const StreamIdentity&) const = default;
};

class GpuSide {
 public:
  struct Options {
    Device device;
    int rank = 0, size = 1;
    int64_t timeoutMs = 0;
    uint32_t mostBlocks = 0;          ///< 0: as many as seem good
    bool byCopies = false;            ///< where no peer is far
    bool hasOtherProcesses = false;   ///< some of the peers that are not far are of others
    std::vector<bool> isRemote = {};  ///< by peer: not joined on this host but by a network
    bool reachesGpus = false;         ///< that network sends from GPUs' memory, and to it
    /// The transport of those peers, with such rings; called where there are some.
    std::function<std::unique_ptr<transports::Endpoint>(const transports::RingLayout&)> makeRemote =
        {};
  };
  virtual ~GpuSide() = default;

  virtual transports::EndpointAddress address(int peer) = 0;
  /// Throws Refused for a malformed address. That a peer cannot be joined is a fault.
  virtual void connect(int peer, const transports::EndpointAddress& address) = 0;
  /// After all connect().
  virtual const GpuState& state() = 0;
  /// Of the address in it, for one peer.
  virtual std::vector<base::FileDescriptor> descriptors() = 0;
  virtual void hear(int peer, const ToldGpuState& theirs) = 0;
  /// When all others were heard: calls are copies and waits on streams. A rank asks for that, or
  /// ranks of several processes share a GPU, where kernels may not wait for each other. rejoin()
  /// then joins all ranks once more, by addresses in the states that are told next; behind these
  /// they tell each other what has come of it.
  virtual bool byCopies() const = 0;
  virtual void rejoin() = 0;
  /// Patterns through all pairs, by all ranks at the same time. The first waits for no other rank;
  /// by copies, all have returned from it before the second.
  virtual void startProbe() = 0;
  virtual void finishProbe() = 0;
  /// Where there are no faults. Throws what CUDA refuses.
  virtual void makeReady() = 0;

  /// The same for all ranks of a communicator, and in one process for no other.
  virtual uint64_t group() const = 0;
  /// What plans are chosen for. The blocks are those of the rank that has the fewest.
  virtual size_t slotBytes() const = 0;
  virtual int channels() const = 0;
  virtual uint32_t blocks() const = 0;
  /// Kernels of this process may address all ranks' buffers.
  virtual bool canMap() const = 0;

  /// On which GPU a rank works, and how this one's messages get there: "on cuda:1 by p2p". Of this
  /// rank itself the GPU alone. After connect().
  virtual std::string describe(int peer) const = 0;
  /// A rank of another process, which writes to memory of this one.
  virtual bool isInOtherProcess(int peer) const = 0;

  /// At the first call of a kind.
  virtual std::unique_ptr<GpuPlan> prepare(const plan::PlanSpec& spec,
                                           const plan::ProgramOf& programOf) = 0;
  /// On which the calls without a stream run.
  virtual StreamRef ownStream() = 0;
  virtual StreamIdentity identityOf(StreamRef stream) const = 0;
  /// Whether all that was launched has ended; what was captured does not count.
  virtual bool isIdle() const = 0;
  /// Of a rank that has given up: until no kernel of this process touches its buffers, whoever
  /// launched it. At most 5 s: one that has not begun by then touches none of them.
  virtual void awaitPeers() const = 0;
  /// Mapped plans of this rank may have these buffers. Throws what CUDA says where they cannot.
  virtual void allowPeers(const void* data, size_t bytes) const = 0;
  /// Whether something has begun, as a graph's replay may, and not ended.
  virtual bool isRunning() = 0;
  /// Of a collective that has begun and not ended, a graph's too: how many launches had ended
  /// before it. By copies of any call that waits. From any thread.
  virtual std::optional<uint64_t> underWay() const = 0;
  /// Whether a graph is left in which a call was captured.
  virtual bool hasGraphs() const = 0;
  /// Calls that were launched or captured.
  virtual uint64_t launched() const = 0;
  /// Collectives that have ended, those of graphs each time; 0 where they are not counted. From any
  /// thread.
  virtual uint64_t collectives() const = 0;
  /// A rank of those that have left, after so many collectives, without which something that is
  /// under way cannot end; or -1. From any thread.
  virtual int missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const = 0;

  /// Of a rank that has failed: what was launched and has not begun is to touch nothing when it
  /// does. False where it cannot be kept from that; then it is waited for.
  virtual bool discard() = 0;
  /// This rank makes no more calls, and all have ended, or have been discarded: until what they
  /// have sent has left.
  virtual void leave() = 0;
  /// To be called now and then; finds what failure() tells. From any thread.
  virtual void watch() = 0;
  /// Ends what is under way. From any thread, at any time.
  virtual void abort() = 0;
  virtual std::optional<GpuFailure> failure() const = 0;
};

/// Throws Unsupported where there is no such device, and OutOfMemory naming the bytes.
std::unique_ptr<GpuSide> makeGpuSide(const GpuSide::Options& options);

/// Calls of ranks of one communicator that are launched together: collectives, of a rank in the
/// order in which they follow each other, or sends and receives, once of each rank. But for calls
/// by copies they share a device and a stream.
struct GpuLaunch {
  GpuSide* side = nullptr;
  const GpuCall* call = nullptr;
  const executor::Exchange* exchange = nullptr;
  StreamRef stream;
  uint64_t capture = 0;  ///< of the stream's identity
  /// Others, of the same capture, that it comes behind and that come behind it.
  std::span<const StreamRef> joined = {};
};
/// Throws Mismatch where the calls do not go together, and what CUDA refuses.
void launchOnGpu(std::span<const GpuLaunch> calls);
/// Whether `next` may be launched together with `calls`, behind those of its rank.
bool mayFollow(std::span<const GpuLaunch> calls, const GpuLaunch& next);

}  // namespace tutti::communicator
