// Calls as copies and waits on streams, for ranks of several processes that share a GPU.

#include <algorithm>
#include <exception>

#include "src/base/log.h"
#include "src/communicator/cuda/engine.h"
#include "src/device/any_stream.h"
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

/// A rank's branch off a stream that has several ranks.
struct Branch {
  explicit Branch(int device) : own(device::makeCudaStream(device)) {}
  cudaStream_t stream() const { return own->ref().cuda(); }
  const std::unique_ptr<device::AnyStream> own;
  const executor::copy::OwnedEvent begin, end;
};

class CopyEngine final : public GpuEngine {
 public:
  CopyEngine(const transports::p2p::Endpoint& endpoint, uint64_t deadlineNs)
      : executor_(endpoint, {.deadlineNs = deadlineNs, .mostOperations = kMostOperations}),
        branch_(endpoint.device()),
        captured_(endpoint.device()) {}

  std::unique_ptr<GpuPlan> prepare(const plan::PlanSpec& spec,
                                   const plan::Program& program) override {
    return std::make_unique<CopyEnginePlan>(executor_.prepare(spec, program));
  }
  void launch(std::span<const GpuLaunch> ranks, cudaStream_t stream) override;
  void leave(bool) override { executor_.leave(); }
  void watch() override { executor_.watch(); }
  void abort() override;
  std::optional<GpuFailure> failure(uint64_t launched) const override;

 private:
  static CopyEngine& of(const GpuLaunch& rank) { return static_cast<CopyEngine&>(engineOf(rank)); }
  void launch(const GpuLaunch& rank, cudaStream_t stream);

  StreamExecutor executor_;
  const Branch branch_, captured_;  // a capture holds what it has got until it ends
};

// Ranks wait for each other, so those of one stream branch off it, each to a stream of its own.
// They come back also when one of them fails: what the others have enqueued ends before the stream
// does.
void CopyEngine::launch(std::span<const GpuLaunch> ranks, cudaStream_t stream) {
  if (ranks.size() == 1) return launch(ranks.front(), stream);
  const auto branchOf = [captured =
                             device::isCapturing(stream)](const GpuLaunch& rank) -> const Branch& {
    return captured ? of(rank).captured_ : of(rank).branch_;
  };
  const executor::copy::OwnedEvent& begin = branchOf(ranks.front()).begin;
  begin.record(stream);
  for (const GpuLaunch& rank : ranks) begin.holdBack(branchOf(rank).stream());
  std::exception_ptr failed;
  try {
    for (const GpuLaunch& rank : ranks) of(rank).launch(rank, branchOf(rank).stream());
  } catch (const Error&) {
    failed = std::current_exception();
  }
  for (const GpuLaunch& rank : ranks) {
    const Branch& branch = branchOf(rank);
    branch.end.record(branch.stream());
    branch.end.holdBack(stream);
  }
  if (failed) std::rethrow_exception(failed);
}

void CopyEngine::launch(const GpuLaunch& rank, cudaStream_t stream) {
  if (rank.exchange) return executor_.exchange(*rank.exchange, stream);
  const GpuCall& call = *rank.call;
  executor_.launch(
      {.plan = static_cast<const CopyEnginePlan*>(call.plan)->get(),
       .in = call.in,
       .out = call.out,
       .count = call.count,
       .blocks = call.blocks ? std::span(*call.blocks) : std::span<const plan::Block>(),
       .type = call.type,
       .op = call.op,
       .scalar = call.scalar,
       .deterministic = call.deterministic,
       .callHash = call.callHash},
      stream);
}

// Whoever aborts has a failure to tell already.
void CopyEngine::abort() {
  try {
    executor_.abort();
  } catch (const Error& error) {
    base::log(LogLevel::Error, "copies cannot be aborted: ", error.what());
  }
}

// Operations are counted modulo a number: it was the last of those that it can have been.
std::optional<GpuFailure> CopyEngine::failure(uint64_t launched) const {
  const auto found = executor_.report();
  if (!found) return {};
  const uint64_t since = (launched - found->operation - 1) % executor::copy::kCounted;
  return GpuFailure{.code = found->error.code(),
                    .text = found->error.what(),
                    .peer = found->peer,
                    .operation = launched - std::min(since, launched),
                    .bytesArrived = 0};
}

}  // namespace

std::unique_ptr<GpuEngine> makeCopyEngine(const transports::p2p::Endpoint& endpoint,
                                          uint64_t deadlineNs) {
  const device::OnDevice on(endpoint.device());
  return std::make_unique<CopyEngine>(endpoint, deadlineNs);
}

}  // namespace tutti::communicator
