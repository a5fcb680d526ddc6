#pragma once

// gpu.h over p2p, and what runs calls there.

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "src/communicator/cuda/block_shares.h"
#include "src/communicator/cuda/engine.h"
#include "src/communicator/cuda/graph_count.h"
#include "src/communicator/cuda/launch_order.h"
#include "src/communicator/gpu/gpu.h"
#include "src/device/any_stream.h"
#include "src/executor/copy/probe.h"
#include "transports/p2p/endpoint.h"

namespace tutti::communicator {

struct Process {
  int64_t id = 0;
  uint64_t number = 0;
  bool operator==(const Process&) const = default;
};

class CudaSide final : public GpuSide {
 public:
  explicit CudaSide(const Options& options);
  ~CudaSide() override;

  transports::EndpointAddress address(int peer) override;
  void connect(int peer, const transports::EndpointAddress& address) override;
  const GpuState& state() override;
  std::vector<base::FileDescriptor> descriptors() override;
  void hear(int peer, const ToldGpuState& theirs) override;
  bool byCopies() const override { return state_.byCopies; }
  void rejoin() override;
  void startProbe() override;
  void finishProbe() override;
  void makeReady() override;

  uint64_t group() const override { return group_; }
  size_t slotBytes() const override {
    const auto& layout = endpoint_->layout();
    return byCopies() ? layout.copySlotBytes : layout.rings.slotBytes;
  }
  int channels() const override { return endpoint_->layout().rings.channels; }
  uint32_t blocks() const override { return byCopies() ? 1 : fewestBlocks_; }
  bool canMap() const override;
  std::string describe(int peer) const override;
  bool isInOtherProcess(int peer) const override {
    return peers_[peer].process.id != 0 && !isInThisProcess(peer) && !isRemote(peer);
  }
  std::unique_ptr<GpuPlan> prepare(const plan::PlanSpec& spec,
                                   const plan::ProgramOf& programOf) override;
  StreamRef ownStream() override {
    return device::AnyStream::cudaRef(endpoint_->stream(), device());
  }
  StreamIdentity identityOf(StreamRef stream) const override;
  bool isIdle() const override;
  void awaitPeers() const override;
  void allowPeers(const void* data, size_t bytes) const override;
  bool isRunning() override;
  std::optional<uint64_t> underWay() const override;
  bool hasGraphs() const override { return graphs_.any(); }
  uint64_t launched() const override { return launched_.load(std::memory_order_relaxed); }
  uint64_t collectives() const override;
  int missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const override;

  bool discard() override;
  void leave() override;
  void watch() override;
  void abort() override;
  std::optional<GpuFailure> failure() const override;

  GpuEngine& engine() { return *engine_; }
  bool isAborted() const { return aborted_.load(std::memory_order_acquire); }
  /// Whether something of it, launched, replayed or to be, may touch what it has been given.
  bool isBusy();
  int device() const { return options_.device.index; }
  int rank() const { return options_.rank; }
  /// Held from before() to after().
  [[nodiscard]] std::unique_lock<std::mutex> turn();
  /// One launch of a rank, of so many calls, runs at a time; and of all that share its blocks.
  void before(const GpuLaunch& launch);
  void after(const GpuLaunch& launch, uint64_t calls);

 private:
  struct Neighbour {
    Process process;  ///< 0 before connect(): it does nothing here then
    int device = 0;
    std::string remote;     ///< the transport to it, where p2p does not lead there
    bool isDirect = false;  ///< long messages between it and this rank do not pass through the host
  };
  bool isRemote(int peer) const { return options_.isRemote[peer]; }
  /// Of this process, and joined by p2p.
  bool isInThisProcess(int peer) const {
    return !isRemote(peer) && peers_[peer].process == peers_[options_.rank].process;
  }
  /// Of this process, on this device.
  uint32_t ranksHere() const;
  void connectRemote(int peer, const base::Bytes& address, bool reachesGpus);
  void logWays() const;
  void warnOfFewQueues() const;
  void giveBlocks();

  void endProbe();

  const Options options_;
  const uint64_t number_;
  // A kernel looks there: it is freed last.
  std::unique_ptr<transports::p2p::PinnedMemory<uint32_t>> probeIsOver_ =
      std::make_unique<transports::p2p::PinnedMemory<uint32_t>>(1);
  // `before_` is the one before rejoin(), until all peers have let go of its memory.
  std::unique_ptr<transports::p2p::P2pEndpoint> endpoint_, before_;
  std::unique_ptr<executor::copy::CopyProbe> copyProbe_;  // while it is under way, of copies
  std::unique_ptr<transports::Endpoint> remote_;  // to the remote peers, until the engine has it
  GpuState state_;
  std::vector<Neighbour> peers_;
  std::vector<int> otherDevices_;  // the peers', each once
  bool isAlone_ = false;           // no other rank of this process is on this device
  uint64_t group_ = 0;             // rank 0's number
  BlockShare share_;               // of the process's
  uint32_t fewestBlocks_ = UINT32_MAX;
  std::unique_ptr<GpuEngine> engine_;
  std::atomic<GpuEngine*> ready_{nullptr};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> hasLeft_{false};
  std::atomic<bool> hasDiscarded_{false};
  LaunchOrder order_;  // of this rank's calls
  OrderEvent joined_;
  GraphCount graphs_;
  std::atomic<uint64_t> launched_{0};
};

}  // namespace tutti::communicator
