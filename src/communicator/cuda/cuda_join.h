#pragma once

// gpu_join.h over p2p.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/communicator/cuda/block_shares.h"
#include "src/communicator/cuda/cuda_ranks.h"
#include "src/communicator/gpu/gpu_join.h"
#include "src/executor/copy/probe.h"
#include "transports/p2p/endpoint.h"

namespace tutti::communicator {

struct Process {
  int64_t id = 0;
  uint64_t number = 0;
  bool operator==(const Process&) const = default;
};

class CudaJoin final : public GpuJoin {
 public:
  explicit CudaJoin(const Options& options);
  ~CudaJoin() override;

  transports::EndpointAddress address(int peer) override;
  void connect(int peer, const transports::EndpointAddress& address) override;
  const GpuState& state() override;
  std::vector<base::FileDescriptor> descriptors(int peer) override;
  void hear(int peer, const ToldGpuState& theirs) override;
  void rejoin() override;
  void startProbe() override;
  void finishProbe() override;
  bool hasPairsApart() const override { return !apart_.empty(); }
  void joinByHost() override;
  std::unique_ptr<GpuRank> makeReady() override;
  void abort() override;

  std::string describe(int peer) const override;
  bool isInOtherProcess(int peer) const override {
    return peers_[peer].process.id != 0 && !isInThisProcess(peer) && !isRemote(peer);
  }
  bool isInThisProcess(int peer) const override {
    return !isRemote(peer) && peers_[peer].process == peers_[options_.rank].process;
  }

 private:
  struct Neighbour {
    Process process;  ///< 0 before connect(): it does nothing here then
    int device = 0;
    std::string remote;     ///< the transport to it, where p2p does not lead there
    bool isDirect = false;  ///< long messages between it and this rank do not pass through the host
  };
  int device() const { return options_.device.index; }
  int rank() const { return options_.rank; }
  bool byCopies() const { return state_.byCopies; }
  bool isRemote(int peer) const { return options_.isRemote[peer]; }
  bool canMap() const;
  using Pair = std::pair<int, int>;
  static Pair pairOf(int a, int b) { return {std::min(a, b), std::max(a, b)}; }
  bool isApart(int peer) const { return apart_.contains(pairOf(rank(), peer)); }
  void part(int peer, const std::string& why);
  void hearApart(int peer, int other, const std::string& why);
  void connectAgain(int peer, const ToldGpuState& told);
  void connectByHost(int peer, const ToldGpuState& told);
  void addHostFault(int peer, const std::string& why);
  void judge(int peer, const std::string& wrong);
  /// Of this process, on this device.
  uint32_t ranksHere() const;
  void connectRemote(int peer, const base::Bytes& address, bool reachesGpus);
  void logWays() const;
  void warnOfFewQueues() const;
  std::unique_ptr<executor::GpuExecutor> makeExecutor();
  GpuFacts facts() const;
  CudaMemory takeMemory();
  void giveBlocks();

  const Options options_;
  const uint64_t number_;
  // A kernel looks there: it is freed last.
  const std::shared_ptr<transports::p2p::PinnedMemory<uint32_t>> probeIsOver_ =
      std::make_shared<transports::p2p::PinnedMemory<uint32_t>>(1);
  // `before_` is the one before rejoin(), until all peers have let go of its memory.
  std::unique_ptr<transports::p2p::P2pEndpoint> endpoint_, before_;
  std::unique_ptr<executor::copy::CopyProbe> copyProbe_;  // while it is under way, of copies
  std::unique_ptr<transports::Endpoint> remote_;          // to the remote peers
  GpuState state_;
  std::map<Pair, std::string>
      apart_;              // of all ranks, and why: the lower one's words, if it has any
  bool isByHost_ = false;  // joinByHost() has been called
  uint32_t probes_ = 0;
  std::vector<Neighbour> peers_;
  uint64_t group_ = 0;  // rank 0's number
  BlockShare share_;    // of the process's
  uint32_t fewestBlocks_ = UINT32_MAX;
};

}  // namespace tutti::communicator
