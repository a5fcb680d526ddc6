#pragma once

// Runs a rank's programs, and sends and receives, by what is enqueued on streams alone: copies and
// stream memory operations over p2p. Nothing spins on a multiprocessor, so ranks of several
// processes may share a GPU; a kernel folds where a program does, and none runs where it does not.
// README.md beside it tells the story.
//
// Operations of a rank are in an order of its own that is the same on all ranks.

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "src/executor/copy/program_run.h"
#include "src/executor/copy/watcher.h"
#include "src/executor/gpu_executor.h"

namespace tutti::executor::copy {

struct CopyOptions {
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

class CopyExecutor final : public GpuExecutor {
 public:
  /// Takes all that it will need of the device: to allocate later may wait for what runs there.
  /// Throws PeerLost where a peer is not connected, InvalidUsage where the endpoint has no slots
  /// for copies, Unsupported where the driver has no stream memory operations. The endpoints of all
  /// ranks outlive what any of them has enqueued.
  explicit CopyExecutor(const transports::p2p::P2pEndpoint& endpoint,
                        const CopyOptions& options = {});
  CopyExecutor(const CopyExecutor&) = delete;
  CopyExecutor& operator=(const CopyExecutor&) = delete;

  /// Asks nothing of CUDA, so it may be called while others run or capture. Throws Unsupported
  /// where the program maps buffers: a copy that is enqueued cannot be taken back, and after a
  /// failure would go to memory that a peer may have given back.
  std::unique_ptr<PreparedPlan> prepare(const plan::PlanSpec& spec,
                                        const plan::ProgramOf& programOf) override;

  /// Behind what each stream has and before what it gets next, piece by piece of all ranks: one
  /// after the other, the first could fill its stream with what waits for the last. Those that
  /// share a stream have all their lanes in it (CopyOptions::mostStreams is 1). Where a launch
  /// takes more operations than are allowed, it is refused with the numbers. Where CUDA refuses a
  /// call, what the stream gets next is behind what was enqueued by then, which ends when the rank
  /// is aborted.
  void launch(std::span<const GpuLaunch> ranks) override;
  bool mayFollow(std::span<const GpuLaunch>, const GpuLaunch&) const override { return false; }

  bool isRunning() override;
  /// As far as it has been seen.
  std::optional<uint64_t> underWay() const override;
  std::optional<uint64_t> collectivesEnded() const override { return std::nullopt; }
  int missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const override;
  /// Finds peers that have given up, calls that differ, and waits beyond the deadline. After a
  /// failure as well, until the streams have ended.
  void watch() override { watcher_.look(); }
  /// Here at once, and on the peers by their watch(). What is enqueued runs to its end, writes to
  /// this rank's buffers, and tells nobody.
  void abort() override;
  bool discard() override { return false; }  // copies are made when their turn comes
  void leave() override;
  void giveBlocks() override {}  // it has none
  uint64_t memoryBytes() const override { return own_.bytes() + scratch_.bytes(); }
  std::optional<ExecutorFailure> failure() const override;
  /// Ranks for whom lanes have been seen to wait for so long; what missedLeaver() goes by.
  std::vector<int> awaited(std::chrono::nanoseconds since) const { return watcher_.awaited(since); }

 private:
  struct Part;
  using Parts = std::vector<std::unique_ptr<Part>>;
  void check(const GpuLaunch& launch);
  void check(const CopyPlan& plan, const CollectiveCall& call) const;
  void check(const Exchange& exchange);
  plan::PlanShape shapeOf(const CopyPlan& plan, const CollectiveCall& call) const;
  std::unique_ptr<Part> begin(const GpuLaunch& launch);
  void makeLanes(Part& part, size_t lanes, uint64_t key) const;
  static void enqueueAll(const Parts& parts);
  void end(Part& part) const;
  void joinWhatThereIs(const Part& part) const;
  void finish(StreamQueue& queue) const;
  void requireRoom(uint64_t operations, const std::string& what) const;
  void copyToSelf(const Exchange& exchange, cudaStream_t stream) const;

  const transports::p2p::P2pEndpoint& endpoint_;
  const CopyOptions options_;
  transports::p2p::DeviceMemory own_;
  Ground ground_;
  // Operations follow each other, so all plans share it.
  transports::p2p::DeviceMemory scratch_;
  std::unique_ptr<LaneStreams> streams_;
  std::atomic<uint64_t> launched_{0};
  std::atomic<bool> hasLeft_{false};
  Watcher watcher_;
};

}  // namespace tutti::executor::copy
