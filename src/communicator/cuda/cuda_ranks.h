#pragma once

// When a rank's memory on a GPU is freed. CUDA waits for all that runs there, and holds its lock
// meanwhile. If that is a call of which another rank's part is still to be launched, or copies that
// wait for a rank that is gone, and would be told so, nobody could do that any more. So memory is
// freed while nothing is under way, and nothing is launched; and where calls do not end, later.

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "src/executor/copy/probe.h"
#include "src/executor/gpu_executor.h"
#include "transports/p2p/endpoint.h"
#include "transports/p2p/owned_memory.h"

namespace tutti::communicator {

class CudaRank;

/// What a rank has on its GPU. Freed from the end on: kernels look at the first.
struct CudaMemory {
  int device = 0;
  std::shared_ptr<transports::p2p::PinnedMemory<uint32_t>> probeIsOver;
  std::unique_ptr<transports::p2p::P2pEndpoint> endpoint, before;
  std::unique_ptr<executor::copy::CopyProbe> copyProbe;
  std::unique_ptr<transports::Endpoint> remote;
  std::unique_ptr<executor::GpuExecutor> executor;
};

/// Those of a process.
class CudaRanks {
 public:
  static CudaRanks& ofProcess();

  void add(CudaRank& rank);
  void remove(CudaRank& rank);
  /// Held by whoever launches.
  [[nodiscard]] std::shared_lock<std::shared_mutex> launching();
  /// Until nothing is under way of the communicator's ranks, 5 s at most.
  void awaitQuiet(uint64_t group);
  /// Frees it, and what could not be freed before, while nothing is under way on any GPU and
  /// nothing is launched. Where calls do not end together for 5 s, which is logged, it is kept.
  void free(CudaMemory memory);
  /// What could not be, if it can now.
  void freeKept();

 private:
  CudaRanks() = default;
  /// Held while it is quiet; by nobody where that takes longer. In the end nobody may launch for a
  /// moment, in which calls end that need nobody else's.
  std::unique_lock<std::shared_mutex> quiet(std::optional<uint64_t> group,
                                            std::chrono::milliseconds patience);
  bool isQuiet(std::optional<uint64_t> group);
  bool freeKept(std::chrono::milliseconds patience);

  std::shared_mutex launching_;
  std::mutex mutex_;
  std::vector<CudaRank*> ranks_;
  std::vector<CudaMemory> kept_;
};

}  // namespace tutti::communicator
