#pragma once

// The CUDA executor: runs a rank's programs by one kernel over p2p. A launch is enqueued on the
// caller's stream and nothing else is done by the host, so it can be captured, and a graph can be
// replayed. One operation of a rank at a time: its launches are ordered, by one stream or by
// events.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <tutti/error.h>
#include <tutti/types.h>
#include "src/executor/kernel/arena.h"
#include "src/executor/kernel/arguments.h"
#include "src/executor/kernel/kernels.h"
#include "src/executor/kernel/launch_tables.h"
#include "src/executor/kernel/proxy.h"
#include "src/executor/kernel/residency.h"
#include "src/plan/plan.h"
#include "transports/p2p/endpoint.h"

namespace tutti::executor::kernel {

using transports::p2p::Wire;

struct InterpreterOptions {
  uint32_t blocks = 16;        ///< of one launch at most
  bool reservesBlocks = true;  ///< on the device; else whoever launches sees that they are free
  /// A multiple of 32; twice as many for long slices, fewer where a block has many lanes.
  uint32_t threadsPerLane = 256;
  uint64_t deadlineNs = 600'000'000'000;
  uint32_t looksEvery = 1024;    ///< spins between looks at who has given up, and at the clock
  size_t arenaBytes = 32 << 20;  ///< of device memory, for programs and their scratch memory
  size_t tableBytes = 1 << 20;   ///< of pinned memory, for what launches are given beside arguments
  bool operator==(const InterpreterOptions&) const = default;
};

/// A program in device memory.
struct ProgramImage {
  std::vector<unsigned char> bytes;
  std::shared_ptr<unsigned char> there;
};

/// A program that is ready to be launched; of one interpreter, and alive while launches or graphs
/// use it.
class DevicePlan {
 public:
  const plan::PlanSpec& spec() const { return spec_; }
  /// Of a launch in so many slices.
  uint32_t blocks(uint32_t slices = 1) const;
  /// More have no channels of their own, or no room in the interpreter's blocks.
  uint32_t mostSlices() const { return mostSlices_; }

 private:
  friend class Interpreter;
  plan::PlanSpec spec_;
  uint32_t lanes_ = 0, mostPorts_ = 0, mostBlocks_ = 1, mostSlices_ = 1;
  bool isOneShot_ = false;  ///< between ranks of one host: see one_shot_device.cuh
  std::shared_ptr<const ProgramImage> image_;
  std::shared_ptr<unsigned char> scratch_;
};

/// One call on one rank. Buffers are device memory, or memory that the device can address, at any
/// address; with other ranks' mapped plans all ranks are in one process.
struct DeviceLaunch {
  const DevicePlan* plan = nullptr;
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t count = 0;  ///< elements of a block
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  const void* scalarAt = nullptr;  ///< an element of `type` that is read instead, by the kernel
  bool deterministic = false;
  uint32_t callHash = 0;    ///< same on all ranks that make the same call; below 2^31
  bool isCaptured = false;  ///< into a graph, whose replays are known to end by completed() alone
  Wire wire = Wire::Simple;
  /// Replicas of the plan side by side, each on a part of every chunk and on channels of its own;
  /// the same number on all ranks, and 1 to mostSlices(). One has a block or two, too little for
  /// the bandwidth of a GPU.
  uint32_t slices = 1;
  /// Where blocks differ in size, of a plan that is `unevenSafe`: by rank, the same on all; `count`
  /// is not used then. Read before launch() returns.
  std::span<const plan::Block> blocks = {};
};

/// The slots that give the host executor the bits of a launch in slices: they decide which element
/// is in which division, and so in which order it is added up.
size_t slotBytesOfSlices(const plan::PlanSpec& spec, size_t slotBytes, uint32_t slices);

/// One send or receive.
struct DeviceTransfer {
  int peer = 0;
  void* data = nullptr;  ///< only read when it is sent
  uint64_t bytes = 0;    ///< up to kMostTransferBytes
  DataType type = DataType::UInt8;
};

/// Sends and receives of one rank, all under way at once where the blocks have lanes for all, so
/// that no pattern can hang; else the nearest ranks' first, and a pattern ends where all ranks are
/// in it. Between two ranks they match in order, type and bytes, within a launch and from launch to
/// launch; from this rank to itself within the launch. What is received overlaps nothing. Read
/// before exchange() returns.
struct DeviceExchange {
  std::span<const DeviceTransfer> sends, receives;
  bool isCaptured = false;  ///< as of a DeviceLaunch
};

class Interpreter {
 public:
  /// Throws InvalidUsage where the device does not hold the blocks, PeerLost where a peer is not
  /// connected. The endpoint and the residency outlive it; launches have ended before it does, and
  /// graphs of them are not replayed any more. Where the endpoint has peers through the host,
  /// `remote` leads to them, has remoteLayout(), and serves nobody else; a thread moves what it
  /// carries.
  Interpreter(transports::p2p::P2pEndpoint& endpoint, Residency& residency,
              const InterpreterOptions& options = {},
              std::unique_ptr<transports::Endpoint> remote = nullptr);
  /// No launch is under way.
  ~Interpreter();
  /// Ahead of that, when nothing is launched or replayed any more: others may have its blocks.
  void giveBlocks();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Those of launches whose messages tell this one: in each number of slices another.
  static std::vector<uint32_t> callHashesOf(uint32_t told);

  /// Allocates nothing and waits for no kernel, so it may be called while others run or capture; a
  /// program that is there already is not uploaded again. Throws InvalidArgument with the numbers
  /// where the program has more lanes than the interpreter's blocks hold, OutOfMemory where the
  /// arena has no room.
  std::unique_ptr<DevicePlan> prepare(const plan::PlanSpec& spec, const plan::Program& program);

  /// Enqueues the launch. Throws InvalidArgument, and System where CUDA refuses it.
  void launch(const DeviceLaunch& launch, cudaStream_t stream);
  /// The calls of several ranks of one device and one stream as one kernel: one after the other
  /// they would wait for each other for ever. Several calls of a rank follow each other in it, each
  /// with a part of the blocks that the largest needs. Alike in wire and size of elements.
  struct RankLaunch {
    Interpreter* interpreter;
    DeviceLaunch launch;
  };
  static void launchMerged(std::span<const RankLaunch> ranks, cudaStream_t stream);

  /// Enqueues sends and receives as one kernel. Throws InvalidArgument, InvalidUsage where those to
  /// itself do not match, OutOfMemory where there is no room for them, and System.
  void exchange(const DeviceExchange& exchange, cudaStream_t stream);
  struct RankExchange {
    Interpreter* interpreter;
    DeviceExchange exchange;
  };
  /// Of ranks that share a stream, as launchMerged(), each of them once.
  static void exchangeMerged(std::span<const RankExchange> ranks, cudaStream_t stream);
  /// Into how many lanes a large transfer is cut.
  uint32_t mostExchangeSlices() const;

  /// Nothing more is launched: waits until what ended launches have sent has left this host, as the
  /// destructor does.
  void finishSending();
  /// Operations of this rank that have ended well, those of graphs too. From any thread.
  uint64_t completed() const;
  /// Of these the collectives, modulo 2^32. From any thread.
  uint32_t collectives() const;
  /// What has begun and not ended, nor given up. From any thread.
  enum class UnderWay { Nothing, Exchange, Collective };
  UnderWay underWay() const;
  /// Whether a lane may be in a call, a graph's too, be it that another one has given up. From any
  /// thread.
  bool isRunning() const;
  /// Ends what is under way, here and on the peers; from any thread. There is no way back.
  void abort();
  /// After abort(): launches that have not begun touch nothing when they do. False where that could
  /// not be brought about within a moment. isRunning() tells of what has begun meanwhile.
  bool discard();
  /// Why launches have given up, when they have: Mismatch, Timeout, Aborted or PeerLost, naming
  /// peer, operation and bytes; or why the next would. Then nothing more can be launched. From any
  /// thread.
  std::optional<Error> failure() const;
  /// Of the lane that has given up first; null when none has. From any thread.
  const Report* report() const;
  /// Why no more gets through to peers on other hosts, whether something is under way or not. From
  /// any thread.
  std::optional<RemoteFailure> remoteFailure() const;

  struct Part;  // of a launch; in launch.h

 private:
  std::shared_ptr<const ProgramImage> imageOf(std::vector<unsigned char> bytes);
  static void requireJoinable(std::span<Interpreter* const> ranks);
  void requireRight(const DeviceLaunch& launch) const;
  plan::PlanShape shapeOf(const DeviceLaunch& launch) const;
  RankArguments commonArguments() const;
  LaunchTables::Table takeTable(size_t rowBytes);
  LaunchTables::Table tableOf(const DeviceLaunch& launch, const plan::PlanShape& shape,
                              RankArguments& arguments);
  uint32_t oneShotBytes(const DeviceLaunch& launch, const plan::PlanShape& shape) const;
  Part partOf(const DeviceLaunch& launch);
  TransferCode sliced(const DeviceTransfer& transfer, const void* from, void* to) const;
  Part partOf(const DeviceExchange& exchange);
  using LaunchKernel = std::function<cudaError_t(const Grid&, const Arguments&)>;
  static void enqueue(std::vector<Part> parts, Wire wire, const LaunchKernel& kernel,
                      cudaStream_t stream);

  transports::p2p::P2pEndpoint& endpoint_;
  Residency& residency_;
  bool hasBlocks_ = false;
  const InterpreterOptions options_;
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
