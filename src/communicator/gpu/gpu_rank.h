#pragma once

// A rank that is ready to call on its GPU: its executor, its streams and the order of its launches.
// GpuJoin makes it at set-up. No header of CUDA is needed here: with the toolkit it is in cuda/,
// without it gpu_absent.cc answers.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tutti/device.h>

#include "src/executor/gpu_executor.h"

namespace tutti::communicator {

/// What plans are chosen for.
struct GpuFacts {
  /// The same for all ranks of a communicator, and in one process for no other.
  uint64_t group = 0;
  /// Ranks whose messages to each other go through memory of the host, the lower one first; sorted.
  std::vector<std::pair<int, int>> apart = {};
  bool byCopies = false;  ///< calls are copies and waits on streams
  bool canMap = false;    ///< kernels of this process may address all ranks' buffers
  size_t slotBytes = 0;
  int channels = 0;
  uint32_t blocks = 0;  ///< those of the rank that has the fewest
  // What a plan may have on that rank.
  size_t lanes = 0;
  size_t operands = 0;  ///< sources and targets of a step
};

/// What tells the streams that ranks of one communicator may share, and captures, apart for the
/// life of the program.
struct StreamIdentity {
  uint64_t stream = 0;
  uint64_t capture = 0;  ///< 0: it is not captured
  auto operator<=>(const StreamIdentity&) const = default;
};

class GpuRank {
 public:
  virtual ~GpuRank() = default;
  virtual executor::GpuExecutor& executor() = 0;
  virtual const GpuFacts& facts() const = 0;

  /// On which the calls without a stream run.
  virtual StreamRef ownStream() = 0;
  virtual StreamIdentity identityOf(StreamRef stream) const = 0;
  /// Whether all that was launched has ended; what was captured does not count.
  virtual bool isIdle() const = 0;
  /// Whether a graph is left in which a call was captured.
  virtual bool hasGraphs() const = 0;
  /// Calls that were launched or captured.
  virtual uint64_t launched() const = 0;
  /// Mapped plans of this rank may have these buffers. Throws what CUDA says where they cannot.
  virtual void allowPeers(const void* data, size_t bytes) const = 0;

  /// What this rank has on its GPU, and its slots for that in memory of the host.
  virtual uint64_t memoryBytes() const = 0;
  virtual uint64_t hostMemoryBytes() const = 0;
  /// Ends what is under way. From any thread, at any time.
  virtual void abort() = 0;
  /// After abort(): whether something of what was launched was ended by it, or will be.
  virtual bool hasLostCalls() const = 0;
  /// As GpuExecutor has it; once is enough.
  virtual bool discard() = 0;
  /// Of a rank that has given up: until no kernel of this process touches its buffers, whoever
  /// launched it. At most 5 s: one that has not begun by then touches none of them.
  virtual void awaitPeers() const = 0;
  /// This rank makes no more calls, and all have ended, or have been discarded: until what they
  /// have sent has left.
  virtual void leave() = 0;
};

/// A rank's operation in a launch that it may share with others: collectives, of a rank in the
/// order in which they follow each other, or sends and receives, once of each rank. But for calls
/// by copies they share a device and a stream.
struct RankLaunch {
  GpuRank* rank = nullptr;
  executor::GpuLaunch operation = {};
  uint64_t capture = 0;  ///< of its stream's identity
  /// Other streams, of the same capture, that it comes behind and that come behind it.
  std::span<const StreamRef> joined = {};
};

/// All are ranks of one communicator. Throws Mismatch where the operations do not go together, and
/// what CUDA refuses.
void launchOnGpu(std::span<const RankLaunch> launches);

}  // namespace tutti::communicator
