#pragma once

// gpu_rank.h over CUDA's streams and events.

#include <cuda_runtime_api.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "src/communicator/cuda/block_shares.h"
#include "src/communicator/cuda/cuda_ranks.h"
#include "src/communicator/cuda/graph_count.h"
#include "src/communicator/cuda/launch_order.h"
#include "src/communicator/gpu/gpu_rank.h"
#include "src/device/any_stream.h"

namespace tutti::communicator {

class CudaRank final : public GpuRank {
 public:
  struct Options {
    int rank = 0;
    Device device;
    GpuFacts facts;
    bool isAlone = false;           ///< no other rank of this process is on this device
    std::vector<int> otherDevices;  ///< the peers', each once
  };
  /// Its device is current.
  explicit CudaRank(const Options& options);
  /// Its part of the process's blocks, and its memory with the executor. Once, before anything
  /// else.
  void own(BlockShare share, CudaMemory memory);
  ~CudaRank() override;

  executor::GpuExecutor& executor() override { return *memory_.executor; }
  const GpuFacts& facts() const override { return options_.facts; }
  StreamRef ownStream() override {
    return device::AnyStream::cudaRef(memory_.endpoint->stream(), device());
  }
  StreamIdentity identityOf(StreamRef stream) const override;
  bool isIdle() const override;
  bool hasGraphs() const override { return graphs_.any(); }
  uint64_t launched() const override { return launched_.load(std::memory_order_relaxed); }
  void allowPeers(const void* data, size_t bytes) const override;
  uint64_t memoryBytes() const override {
    return memory_.endpoint->memoryBytes() + memory_.executor->memoryBytes();
  }
  uint64_t hostMemoryBytes() const override {
    return memory_.endpoint->hostMemoryBytes() +
           (memory_.remote ? memory_.remote->memoryBytes() : 0);
  }
  void abort() override;
  bool hasLostCalls() const override;
  bool discard() override;
  void awaitPeers() const override;
  void leave() override;

  int rank() const { return options_.rank; }
  bool isAborted() const { return aborted_.load(std::memory_order_acquire); }
  /// Whether something of it, launched, replayed or to be, may touch what it has been given.
  bool isBusy();
  /// Held from before() to after().
  [[nodiscard]] std::unique_lock<std::mutex> turn();
  /// One launch of a rank, of so many calls, runs at a time; and of all that share its blocks.
  void before(const RankLaunch& launch);
  void after(const RankLaunch& launch, uint64_t calls);

 private:
  int device() const { return options_.device.index; }
  void giveBlocks();

  const Options options_;
  BlockShare share_;
  CudaMemory memory_;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> hasLeft_{false};
  std::atomic<bool> hasDiscarded_{false};
  LaunchOrder order_;  // of this rank's calls
  OrderEvent joined_;
  GraphCount graphs_;
  std::atomic<uint64_t> launched_{0};
};

}  // namespace tutti::communicator
