#pragma once

// The kernel executor: runs a rank's programs by one kernel over p2p.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/executor/gpu_executor.h"
#include "src/executor/kernel/arena.h"
#include "src/executor/kernel/arguments.h"
#include "src/executor/kernel/kernels.h"
#include "src/executor/kernel/launch_tables.h"
#include "src/executor/kernel/proxy.h"
#include "src/executor/kernel/residency.h"
#include "src/executor/kernel/wires.h"
#include "src/plan/plan.h"
#include "transports/p2p/endpoint.h"

namespace tutti::executor::kernel {

using transports::p2p::Wire;

struct KernelOptions {
  uint32_t blocks = 16;        ///< of one launch at most
  bool reservesBlocks = true;  ///< on the device; else whoever launches sees that they are free
  /// A multiple of 32; twice as many for long slices, fewer where a block has many lanes.
  uint32_t threadsPerLane = 256;
  uint64_t deadlineNs = 600'000'000'000;
  uint32_t looksEvery = 1024;    ///< spins between looks at who has given up, and at the clock
  size_t arenaBytes = 32 << 20;  ///< of device memory, for programs and their scratch memory
  size_t tableBytes = 1 << 20;   ///< of pinned memory, for what launches are given beside arguments
  bool keepsLines = false;       ///< as wireFor() has it
  bool operator==(const KernelOptions&) const = default;
};

/// A program in device memory.
struct ProgramImage {
  std::vector<unsigned char> bytes;
  std::shared_ptr<unsigned char> there;
};

class KernelPlan final : public PreparedPlan {
 public:
  const plan::PlanSpec& spec() const override { return spec_; }
  /// Of a launch in so many slices.
  uint32_t blocks(uint32_t slices = 1) const;
  /// More have no channels of their own, or no room in the executor's blocks.
  uint32_t mostSlices() const { return mostSlices_; }

 private:
  friend class KernelExecutor;
  plan::PlanSpec spec_;
  uint32_t lanes_ = 0, mostPorts_ = 0, mostBlocks_ = 1, mostSlices_ = 1;
  bool isOneShot_ = false;  ///< between ranks of one host: see one_shot_device.cuh
  std::shared_ptr<const ProgramImage> image_;
  std::shared_ptr<unsigned char> scratch_;
};

class KernelExecutor;

/// A call and how the kernel performs it. With other ranks' mapped plans all ranks are in one
/// process. What is pointed to is read before the launch returns.
struct KernelLaunch {
  KernelExecutor* executor = nullptr;
  const KernelPlan* plan = nullptr;
  const CollectiveCall* call = nullptr;
  bool isCaptured = false;  ///< into a graph, whose replays are known to end by completed() alone
  Wire wire = Wire::Simple;
  /// Replicas of the plan side by side, each on a part of every chunk and on channels of its own;
  /// the same number on all ranks, and 1 to mostSlices(). One has a block or two, too little for
  /// the bandwidth of a GPU.
  uint32_t slices = 1;
};

/// Sends and receives of one rank, all under way at once where the blocks have lanes for all, so
/// that no pattern can hang; else the nearest ranks' first, and a pattern ends where all ranks are
/// in it. What is received overlaps nothing. Read before the launch returns.
struct KernelExchange {
  KernelExecutor* executor = nullptr;
  const Exchange* exchange = nullptr;
  bool isCaptured = false;  ///< as of a KernelLaunch
};

/// The slots that give the host executor the bits of a launch in slices: they decide which element
/// is in which division, and so in which order it is added up.
size_t slotBytesOfSlices(const plan::PlanSpec& spec, size_t slotBytes, uint32_t slices);

class KernelExecutor final : public GpuExecutor {
 public:
  /// Throws InvalidUsage where the device does not hold the blocks, PeerLost where a peer is not
  /// connected. The endpoint and the residency outlive it; launches have ended before it does, and
  /// graphs of them are not replayed any more. Where the endpoint has peers through the host,
  /// `remote` leads to them, has remoteLayout(), and serves nobody else; a thread moves what it
  /// carries.
  KernelExecutor(transports::p2p::P2pEndpoint& endpoint, Residency& residency,
                 const KernelOptions& options = {},
                 std::unique_ptr<transports::Endpoint> remote = nullptr);
  /// No launch is under way.
  ~KernelExecutor() override;
  KernelExecutor(const KernelExecutor&) = delete;
  KernelExecutor& operator=(const KernelExecutor&) = delete;

  /// Lanes that a plan may have on ranks of so many blocks each, and sources and targets that its
  /// steps may have in any of these lanes.
  static uint32_t mostLanes(uint32_t blocks);
  static uint32_t mostPorts();

  /// Allocates nothing and waits for no kernel, so it may be called while others run or capture; a
  /// program that is there already is not uploaded again.
  std::unique_ptr<PreparedPlan> prepare(const plan::PlanSpec& spec,
                                        const plan::ProgramOf& programOf) override;
  /// The same.
  std::unique_ptr<KernelPlan> prepareProgram(const plan::PlanSpec& spec,
                                             const plan::Program& program);

  /// By the wires that their sizes ask for.
  void launch(std::span<const GpuLaunch> launches) override;
  bool mayFollow(std::span<const GpuLaunch> launches, const GpuLaunch& next) const override;
  /// The calls of several ranks of one device and one stream as one kernel: one after the other
  /// they would wait for each other for ever. Several calls of a rank follow each other in it, each
  /// with a part of the blocks that the largest needs. Alike in wire and size of elements.
  static void launchCalls(std::span<const KernelLaunch> ranks, cudaStream_t stream);
  /// The same of sends and receives, each rank once. Throws OutOfMemory where there is no room for
  /// their tables.
  static void launchExchanges(std::span<const KernelExchange> ranks, cudaStream_t stream);
  /// Into how many lanes a large transfer is cut.
  uint32_t mostExchangeSlices() const;

  /// Operations of this rank that have ended well, those of graphs too. From any thread.
  uint64_t completed() const;
  std::optional<uint64_t> underWay() const override;
  /// Modulo 2^32.
  std::optional<uint64_t> collectivesEnded() const override;
  /// Also where another lane has given up.
  bool isRunning() override;
  int missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const override;
  void watch() override {}
  void abort() override;
  /// Within a moment, by a copy. After abort(); isRunning() tells of what has begun meanwhile.
  bool discard() override;
  void leave() override;
  void giveBlocks() override;
  uint64_t memoryBytes() const override { return progress_.bytes() + memory_.bytes(); }
  std::optional<ExecutorFailure> failure() const override;

  struct Part;  // of a launch; in launch.h

 private:
  std::shared_ptr<const ProgramImage> imageOf(std::vector<unsigned char> bytes);
  static void requireJoinable(std::span<KernelExecutor* const> ranks);
  void requireRight(const KernelLaunch& launch) const;
  plan::PlanShape shapeOf(const KernelLaunch& launch) const;
  RankArguments commonArguments() const;
  LaunchTables::Table takeTable(size_t rowBytes);
  LaunchTables::Table tableOf(const KernelLaunch& launch, const plan::PlanShape& shape,
                              RankArguments& arguments);
  uint32_t oneShotBytes(const KernelLaunch& launch, const plan::PlanShape& shape) const;
  Part partOf(const KernelLaunch& launch);
  TransferCode sliced(const Transfer& transfer, const void* from, void* to) const;
  Part partOf(const KernelExchange& exchange);
  Wire wireOf(const GpuLaunch& launch) const;
  using LaunchKernel = std::function<cudaError_t(const Grid&, const Arguments&)>;
  static void enqueue(std::vector<Part> parts, Wire wire, const LaunchKernel& kernel,
                      cudaStream_t stream);
  enum class UnderWay { Nothing, Exchange, Collective };
  UnderWay whatIsUnderWay() const;
  uint32_t collectives() const;
  const Report* report() const;

  transports::p2p::P2pEndpoint& endpoint_;
  Residency& residency_;
  bool hasBlocks_ = false;
  std::atomic<bool> hasLeft_{false};
  const KernelOptions options_;
  transports::p2p::DeviceMemory progress_, memory_;
  DeviceArena arena_;  ///< of `memory_`
  std::vector<std::weak_ptr<const ProgramImage>> images_;
  /// Operations follow each other, so all plans share one scratch memory: the largest so far.
  std::shared_ptr<unsigned char> scratch_;
  size_t scratchBytes_ = 0;
  transports::p2p::SetupStream setup_;
  LaunchTables tables_;
  transports::p2p::PinnedMemory<Counts> counts_{1};
  transports::p2p::PinnedMemory<uint32_t> stopWord_{1};
  transports::p2p::PinnedMemory<Report> report_{1};
  std::unique_ptr<Proxy> proxy_;  // null where all peers are on this host
};

}  // namespace tutti::executor::kernel
