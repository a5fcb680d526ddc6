// Calls as copies and waits on streams, for ranks of several processes that share a GPU.

#include <algorithm>
#include <chrono>

#include "src/base/log.h"
#include "src/communicator/cuda/engine.h"
#include "src/device/cuda.h"
#include "src/device/cuda/guards.h"
#include "src/executor/copy/stream_executor.h"

namespace tutti::communicator {
namespace {

using executor::copy::CopyLaunch;
using executor::copy::StreamExecutor;

class CopyEnginePlan final : public GpuPlan {
 public:
  explicit CopyEnginePlan(std::unique_ptr<executor::copy::CopyPlan> plan)
      : plan_(std::move(plan)) {}
  const executor::copy::CopyPlan* get() const { return plan_.get(); }

 private:
  std::unique_ptr<executor::copy::CopyPlan> plan_;
};

/// Calls of CUDA for one launch: enough for buffers as large as a GPU's memory.
constexpr uint64_t kMostOperations = 1 << 22;

/// How long a message of a rank that has left may take to be seen.
constexpr std::chrono::seconds kLeaver{1};

/// Operations are counted modulo a number: the last of those that `ended` can be.
uint64_t lastOf(uint32_t ended, uint64_t launched) {
  return launched - std::min((launched - ended) % executor::copy::kCounted, launched);
}

class CopyEngine final : public GpuEngine {
 public:
  CopyEngine(const transports::p2p::P2pEndpoint& endpoint, uint64_t deadlineNs, size_t streams)
      : executor_(
            endpoint,
            {.deadlineNs = deadlineNs, .mostOperations = kMostOperations, .mostStreams = streams}) {
  }

  std::unique_ptr<GpuPlan> prepare(const plan::PlanSpec& spec,
                                   const plan::ProgramOf& programOf) override {
    return std::make_unique<CopyEnginePlan>(executor_.prepare(spec, programOf));
  }
  void launch(std::span<const GpuLaunch> ranks) override;
  bool mayFollow(std::span<const GpuLaunch>, const GpuLaunch&) const override { return false; }
  void leave() override { executor_.leave(); }
  bool discard() override { return false; }  // copies are made when their turn comes
  void giveBlocks() override {}              // it has none
  bool isRunning() override { return executor_.isWaiting(); }
  std::optional<uint64_t> underWay(uint64_t launched) const override;
  uint64_t collectives() const override { return 0; }
  int missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const override;
  void watch() override { executor_.watch(); }
  void abort() override;
  std::optional<GpuFailure> failure(uint64_t launched) const override;

 private:
  StreamExecutor executor_;
};

CopyLaunch launchOf(const GpuCall& call) {
  return {.plan = static_cast<const CopyEnginePlan*>(call.plan)->get(),
          .in = call.in,
          .out = call.out,
          .count = call.count,
          .blocks = call.blocks ? std::span(*call.blocks) : std::span<const plan::Block>(),
          .type = call.type,
          .op = call.op,
          .scalar = call.scalar,
          .scalarAt = call.scalarAt,
          .deterministic = call.deterministic,
          .callHash = call.callHash};
}

void CopyEngine::launch(std::span<const GpuLaunch> ranks) {
  std::vector<CopyLaunch> launches;
  std::vector<StreamExecutor::RankOperation> operations;
  launches.reserve(ranks.size());  // operations point there
  for (const GpuLaunch& rank : ranks) {
    if (rank.call) launches.push_back(launchOf(*rank.call));
    operations.push_back({&static_cast<CopyEngine&>(engineOf(rank)).executor_,
                          rank.call ? &launches.back() : nullptr, rank.exchange,
                          rank.stream.cuda()});
  }
  StreamExecutor::enqueue(operations);
}

// What a rank has sent before it left is there.
int CopyEngine::missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const {
  for (const int peer : executor_.awaited(kLeaver))
    if (leftAfter[static_cast<size_t>(peer)]) return peer;
  return -1;
}

// As far as it has been seen.
std::optional<uint64_t> CopyEngine::underWay(uint64_t launched) const {
  const auto ended = executor_.awaitedIn();
  return ended ? std::optional(lastOf(*ended, launched)) : std::nullopt;
}

// Whoever aborts has a failure to tell already.
void CopyEngine::abort() {
  try {
    executor_.abort();
  } catch (const Error& error) {
    base::log(LogLevel::Error, "copies cannot be aborted: ", error.what());
  }
}

std::optional<GpuFailure> CopyEngine::failure(uint64_t launched) const {
  const auto found = executor_.report();
  if (!found) return {};
  return GpuFailure{.code = found->error.code(),
                    .text = found->error.what(),
                    .peer = found->peer,
                    .operation = std::max<uint64_t>(lastOf(found->operation + 1, launched), 1)};
}

}  // namespace

std::unique_ptr<GpuEngine> makeCopyEngine(const transports::p2p::P2pEndpoint& endpoint,
                                          uint64_t deadlineNs, size_t streams) {
  const device::OnDevice on(endpoint.device());
  return std::make_unique<CopyEngine>(endpoint, deadlineNs, streams);
}

}  // namespace tutti::communicator
