#pragma once

// Runs a rank's programs, and sends and receives, by what is enqueued on streams alone: copies and
// stream memory operations over p2p. Nothing spins on a multiprocessor, so ranks of several
// processes may share a GPU; a kernel folds where a program does, and none runs where it does not.
// README.md beside it tells the story.
//
// One operation of a rank at a time, in an order of its own that is the same on all ranks: its
// launches are ordered, by one stream or by events, and made by one thread at a time. They can be
// captured, and a graph can be replayed.

#include <memory>
#include <optional>
#include <span>
#include <string>

#include <tutti/error.h>
#include "src/executor/copy/program_run.h"
#include "src/executor/copy/watcher.h"
#include "src/executor/host/exchange_operation.h"

namespace tutti::executor::copy {

struct StreamOptions {
  uint64_t deadlineNs = 600'000'000'000;
  uint64_t mostOperations = 16384;  ///< calls of CUDA for one launch
  uint32_t foldBlocks = 32;         ///< of a fold's kernel at most
  size_t mostStreams = 6;           ///< that lanes share at most; 1: they are in the caller's
};

/// Scratch memory of an executor, which every staged plan of the registry fits into: two slots for
/// each channel.
uint64_t scratchBytes(const transports::p2p::P2pLayout& layout);
/// Of a launch of the plan at most, whatever the count. Throws InvalidArgument where there is no
/// bound.
uint64_t mostScratchBytes(const plan::PlanSpec& spec, const transports::p2p::P2pLayout& layout);

class StreamExecutor {
 public:
  /// Takes all that it will need of the device: to allocate later may wait for what runs there.
  /// Throws PeerLost where a peer is not connected, InvalidUsage where the endpoint has no slots
  /// for copies, Unsupported where the driver has no stream memory operations. The endpoints of all
  /// ranks outlive what any of them has enqueued.
  explicit StreamExecutor(const transports::p2p::P2pEndpoint& endpoint,
                          const StreamOptions& options = {});
  StreamExecutor(const StreamExecutor&) = delete;
  StreamExecutor& operator=(const StreamExecutor&) = delete;

  /// Asks nothing of CUDA, so it may be called while others run or capture. Throws InvalidArgument
  /// with the numbers where the program has more lanes, operands or scratch memory than there can
  /// be, Unsupported where it maps buffers: a copy that is enqueued cannot be taken back, and after
  /// a failure would go to memory that a peer may have given back.
  std::unique_ptr<CopyPlan> prepare(const plan::PlanSpec& spec, const plan::ProgramOf& programOf);

  /// Enqueues the launch, behind what the stream has and before what it gets next. Throws
  /// InvalidArgument with the numbers where it takes more operations than are allowed, before
  /// anything is enqueued; and Cuda where CUDA refuses a call: what the stream gets next is behind
  /// what was enqueued by then, which ends when the rank is aborted.
  void launch(const CopyLaunch& launch, cudaStream_t stream) {
    const RankOperation one{this, &launch, nullptr, stream};
    enqueue({&one, 1});
  }
  /// The same of sends and receives that are all under way at once, to and from any peers, this
  /// rank itself too. `exchange.endpoint` is not used. Errors as of launch(), and InvalidUsage and
  /// InvalidArgument as of requireSelfMatches() and requireDisjoint().
  void exchange(const Exchange& exchange, cudaStream_t stream) {
    const RankOperation one{this, nullptr, &exchange, stream};
    enqueue({&one, 1});
  }
  /// A launch, or sends and receives.
  struct RankOperation {
    StreamExecutor* executor;
    const CopyLaunch* launch;
    const Exchange* exchange;
    cudaStream_t stream;
  };
  /// The parts of several ranks of this process in one operation, piece by piece of all: one after
  /// the other, the first could fill its stream with what waits for the last. Those that share a
  /// stream have all their lanes in it (StreamOptions::mostStreams is 1).
  static void enqueue(std::span<const RankOperation> ranks);

  /// To be called by the owner every few milliseconds while something is under way, from any
  /// thread; does not wait. Finds peers that have given up, calls that differ, and waits beyond the
  /// deadline. After a failure as well, until the streams have ended.
  void watch() { watcher_.look(); }
  /// Ends what is under way, here at once, and on the peers by their watch(); from any thread. What
  /// is enqueued runs to its end, writes to this rank's buffers, and tells nobody. There is no way
  /// back.
  void abort() { watcher_.abort(); }
  /// Its operations have ended and none comes any more. What a graph still replays ends; no peer
  /// hears of it. From any thread.
  void leave() { watcher_.leave(); }
  /// As the watcher has them.
  bool isWaiting() { return watcher_.isWaiting(); }
  std::vector<int> awaited(std::chrono::nanoseconds since) const { return watcher_.awaited(since); }
  std::optional<uint32_t> awaitedIn() const { return watcher_.awaitedIn(); }
  /// Why the rank has given up, when it has: Mismatch, Timeout, Aborted or PeerLost, naming peer,
  /// operation (modulo 1024) and bytes. Then nothing more can be launched. From any thread.
  std::optional<Error> failure() const {
    const auto found = report();
    return found ? std::optional(found->error) : std::nullopt;
  }
  /// The same, with whom and where. From any thread.
  std::optional<CopyFailure> report() const { return watcher_.failure(); }

 private:
  struct Part;
  using Parts = std::vector<std::unique_ptr<Part>>;
  void check(const RankOperation& operation);
  void check(const CopyLaunch& launch) const;
  void check(const Exchange& exchange);
  plan::PlanShape shapeOf(const CopyLaunch& launch) const;
  std::unique_ptr<Part> begin(const RankOperation& operation);
  void makeLanes(Part& part, size_t lanes, uint64_t key) const;
  static void enqueueAll(const Parts& parts);
  void end(Part& part) const;
  void joinWhatThereIs(const Part& part) const;
  void finish(StreamQueue& queue) const;
  void requireRoom(uint64_t operations, const std::string& what) const;
  void copyToSelf(const Exchange& exchange, cudaStream_t stream) const;

  const transports::p2p::P2pEndpoint& endpoint_;
  const StreamOptions options_;
  transports::p2p::DeviceMemory own_;
  Ground ground_;
  // Operations follow each other, so all plans share it.
  transports::p2p::DeviceMemory scratch_;
  std::unique_ptr<LaneStreams> streams_;
  Watcher watcher_;
};

}  // namespace tutti::executor::copy
