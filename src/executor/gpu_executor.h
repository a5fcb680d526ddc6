#pragma once

// What runs a rank's operations on its GPU: by one kernel (kernel/), or, where ranks of several
// processes share a GPU, by copies and waits (copy/). All ranks of a communicator have the same
// kind. An operation is enqueued on a stream and nothing else is done by the host, so it can be
// captured, and a graph can be replayed. One operation of a rank at a time: its launches are
// ordered, by one stream or by events, and made by one thread at a time.
//
// No header of CUDA is needed here.

#include <span>
#include <vector>

#include <tutti/device.h>
#include <tutti/error.h>

#include "src/executor/call.h"
#include "src/executor/exchange.h"
#include "src/executor/executor.h"

namespace tutti::executor {

/// Why an executor has given up, or why the next operation would.
class ExecutorFailure : public Error {
 public:
  explicit ExecutorFailure(const Error& error) : Error(error) {}
  int peer = -1;  ///< waited for, or lost, or who disagrees
  /// Its number among this rank's operations that have ended, from 1; 0: between them. Captured
  /// ones end as often as they are replayed.
  uint64_t operation = 0;
  std::optional<uint64_t> bytesArrived = {};  ///< of it, where the GPU tells
  std::vector<uint32_t> callHashes = {};      ///< of a collective, where the GPU tells: one of them
};

class GpuExecutor;

/// An operation of one rank as it is enqueued: a call by a plan, or sends and receives. What is
/// pointed to is read before launch() returns.
struct GpuLaunch {
  GpuExecutor* executor = nullptr;
  const PreparedPlan* plan = nullptr;    ///< of `call`
  const CollectiveCall* call = nullptr;  ///< null: `exchange`
  const Exchange* exchange = nullptr;
  StreamRef stream = {};
  bool isCaptured = false;  ///< into a graph
  uint32_t slices = 1;  ///< of the call: parts of every chunk, side by side; the same on all ranks
};

class GpuExecutor : public Executor {
 public:
  /// Enqueues operations of ranks of this process: calls, of a rank in the order in which they
  /// follow each other, or exchanges, once of each rank. All their executors are of this kind;
  /// kernels share a device and a stream. Throws InvalidArgument and InvalidUsage where something
  /// is wrong with one of them, before anything is enqueued; Mismatch where they do not go
  /// together; System and Cuda where CUDA refuses.
  virtual void launch(std::span<const GpuLaunch> launches) = 0;
  /// Whether `next` may be enqueued together with `launches`, behind those of its rank.
  virtual bool mayFollow(std::span<const GpuLaunch> launches, const GpuLaunch& next) const = 0;
  /// Nothing is launched any more, and all has ended: until what was sent has left this host. What
  /// a graph replays from now on ends without a word to the peers, and the questions here know of
  /// nothing any more.
  virtual void leave() = 0;
  /// Of a rank that has failed: what was launched and has not begun is to touch nothing when it
  /// does. False where it cannot be kept from that; then it is waited for.
  virtual bool discard() = 0;
  /// Nothing is replayed any more, either: the blocks that its kernels had may be others'.
  virtual void giveBlocks() = 0;

  /// What it has on its GPU, besides the endpoint's.
  virtual uint64_t memoryBytes() const = 0;

  // Any thread's.
  /// A rank of those that have left, after so many collectives, without which something that is
  /// under way cannot end; or -1.
  virtual int missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const = 0;
  /// To be called every few milliseconds while something may be under way; finds what failure()
  /// tells. Does not wait.
  virtual void watch() = 0;
  /// Ends what is under way, here and on the peers. There is no way back.
  virtual void abort() = 0;
  /// Mismatch, Timeout, Aborted or PeerLost, with the peer, operation and bytes. Then nothing more
  /// can be launched.
  virtual std::optional<ExecutorFailure> failure() const = 0;
};

}  // namespace tutti::executor
