#pragma once

// What runs the calls of a rank on its GPU: the kernel that interprets programs, or, where ranks of
// several processes share a GPU, copies and waits that are enqueued on streams. All ranks of a
// communicator have the same kind.

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <span>

#include "src/communicator/gpu/gpu.h"
#include "src/executor/kernel/interpreter.h"
#include "transports/p2p/endpoint.h"

namespace tutti::communicator {

class GpuEngine {
 public:
  virtual ~GpuEngine() = default;
  virtual std::unique_ptr<GpuPlan> prepare(const plan::PlanSpec& spec,
                                           const plan::ProgramOf& programOf) = 0;
  /// Of the ranks of launchOnGpu(), this engine's among them.
  virtual void launch(std::span<const GpuLaunch> ranks) = 0;
  /// As mayFollow() has it.
  virtual bool mayFollow(std::span<const GpuLaunch> calls, const GpuLaunch& next) const = 0;
  /// No launch will come, and all have ended: until what they have sent has left this host. What a
  /// graph replays from now on ends without a word to the peers.
  virtual void leave() = 0;
  /// As GpuSide has it.
  virtual bool discard() = 0;
  /// Nothing is replayed any more, either: the blocks that its kernels had may be others'.
  virtual void giveBlocks() = 0;
  /// Something has begun on the GPU, be it a graph's, and not ended. What does not come ends by its
  /// deadline.
  virtual bool isRunning() = 0;
  /// As GpuSide has them.
  virtual std::optional<uint64_t> underWay(uint64_t launched) const = 0;
  virtual uint64_t collectives() const = 0;
  virtual int missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const = 0;
  /// As GpuSide has them.
  virtual void watch() = 0;
  virtual void abort() = 0;
  /// `launched`: calls so far.
  virtual std::optional<GpuFailure> failure(uint64_t launched) const = 0;
};

/// The endpoint outlives it, and so does the process's residency. `remote` leads to the peers that
/// the endpoint has through the host. `keepsLines`: as wireFor() has it.
std::unique_ptr<GpuEngine> makeKernelEngine(transports::p2p::P2pEndpoint& endpoint,
                                            const executor::kernel::InterpreterOptions& options,
                                            bool keepsLines,
                                            std::unique_ptr<transports::Endpoint> remote);
/// The endpoint has slots for copies. `streams`: of one call at most.
std::unique_ptr<GpuEngine> makeCopyEngine(const transports::p2p::P2pEndpoint& endpoint,
                                          uint64_t deadlineNs, size_t streams);

/// Of one rank of a launch.
GpuEngine& engineOf(const GpuLaunch& rank);

}  // namespace tutti::communicator
