// Calls as launches of the kernel that interprets programs.

#include <algorithm>

#include "src/communicator/cuda/block_shares.h"
#include "src/communicator/cuda/engine.h"
#include "src/communicator/cuda/wires.h"

namespace tutti::communicator {
namespace {

using executor::kernel::DeviceLaunch;
using executor::kernel::DeviceTransfer;
using executor::kernel::Interpreter;
using transports::p2p::Wire;

class KernelPlan final : public GpuPlan {
 public:
  explicit KernelPlan(std::unique_ptr<executor::kernel::DevicePlan> plan)
      : plan_(std::move(plan)) {}
  const executor::kernel::DevicePlan* get() const { return plan_.get(); }

 private:
  std::unique_ptr<executor::kernel::DevicePlan> plan_;
};

class KernelEngine final : public GpuEngine {
 public:
  KernelEngine(transports::p2p::P2pEndpoint& endpoint,
               const executor::kernel::InterpreterOptions& options, bool keepsLines,
               std::unique_ptr<transports::Endpoint> remote)
      : rank_(endpoint.rank()),
        interpreter_(endpoint, BlockShares::ofProcess().residency(), options, std::move(remote)),
        keepsLines_(keepsLines) {}

  std::unique_ptr<GpuPlan> prepare(const plan::PlanSpec& spec,
                                   const plan::ProgramOf& programOf) override {
    return std::make_unique<KernelPlan>(interpreter_.prepare(spec, programOf(rank_)));
  }
  void launch(std::span<const GpuLaunch> ranks) override {
    if (ranks.front().call)
      launchCalls(ranks, ranks.front().stream.cuda());
    else
      launchExchanges(ranks, ranks.front().stream.cuda());
  }
  bool mayFollow(std::span<const GpuLaunch> calls, const GpuLaunch& next) const override;
  void leave() override {
    interpreter_.finishSending();
    interpreter_.abort();
  }
  bool discard() override { return interpreter_.discard(); }
  void giveBlocks() override { interpreter_.giveBlocks(); }
  bool isRunning() override { return interpreter_.isRunning(); }
  std::optional<uint64_t> underWay(uint64_t launched) const override;
  uint64_t collectives() const override { return interpreter_.collectives(); }
  int missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const override;
  void watch() override {}
  void abort() override { interpreter_.abort(); }
  std::optional<GpuFailure> failure(uint64_t launched) const override;

 private:
  static KernelEngine& of(const GpuLaunch& rank) {
    return static_cast<KernelEngine&>(engineOf(rank));
  }
  Wire wireOf(const GpuCall& call) const { return wireFor(call.bytes, call.isMapped, keepsLines_); }
  DeviceLaunch launchOf(const GpuLaunch& rank) const;
  static void launchCalls(std::span<const GpuLaunch> ranks, cudaStream_t stream);
  static void launchExchanges(std::span<const GpuLaunch> ranks, cudaStream_t stream);

  const int rank_;
  Interpreter interpreter_;
  const bool keepsLines_;
};

// A collective under way has the number after those that have ended.
int KernelEngine::missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const {
  if (interpreter_.underWay() != Interpreter::UnderWay::Collective) return -1;
  const uint32_t ended = interpreter_.collectives();
  for (size_t peer = 0; peer < leftAfter.size(); ++peer)
    if (leftAfter[peer] &&
        static_cast<int32_t>(ended - static_cast<uint32_t>(*leftAfter[peer])) >= 0)
      return static_cast<int>(peer);
  return -1;
}

// What the interpreter's proxy has found concerns no call, unless a launch says which.
std::optional<GpuFailure> KernelEngine::failure(uint64_t) const {
  const auto* const report = interpreter_.report();
  if (!report) {
    const auto remote = interpreter_.remoteFailure();
    if (!remote) return {};
    return GpuFailure{
        .code = remote->error.code(), .text = remote->error.what(), .peer = remote->peer};
  }
  const Error error = *interpreter_.failure();
  return GpuFailure{.code = error.code(),
                    .text = error.what(),
                    .peer = report->peer,
                    .operation = interpreter_.completed() + 1,
                    .bytesArrived = report->bytesArrived,
                    .callHashes = Interpreter::callHashesOf(report->callHash)};
}

std::optional<uint64_t> KernelEngine::underWay(uint64_t) const {
  const uint64_t ended = interpreter_.completed();
  if (interpreter_.underWay() != Interpreter::UnderWay::Collective) return std::nullopt;
  return ended;
}

DeviceLaunch KernelEngine::launchOf(const GpuLaunch& rank) const {
  const GpuCall& call = *rank.call;
  return {.plan = static_cast<const KernelPlan*>(call.plan)->get(),
          .in = call.in,
          .out = call.out,
          .count = call.count,
          .type = call.type,
          .op = call.op,
          .scalar = call.scalar,
          .scalarAt = call.scalarAt,
          .deterministic = call.deterministic,
          .callHash = call.callHash,
          .isCaptured = rank.capture != 0,
          .wire = wireOf(call),
          .slices = call.slices,
          .blocks = call.blocks ? std::span(*call.blocks) : std::span<const plan::Block>()};
}

bool KernelEngine::mayFollow(std::span<const GpuLaunch> calls, const GpuLaunch& next) const {
  if (!next.call || calls.size() >= executor::kernel::kMostMergedCalls) return false;
  return std::ranges::all_of(calls, [&](const GpuLaunch& before) {
    return before.call && before.stream.cuda() == next.stream.cuda() &&
           before.stream.device() == next.stream.device() &&
           sizeOf(before.call->type) == sizeOf(next.call->type) &&
           wireOf(*before.call) == wireOf(*next.call);
  });
}

void KernelEngine::launchCalls(std::span<const GpuLaunch> ranks, cudaStream_t stream) {
  std::vector<Interpreter::RankLaunch> all;
  for (const GpuLaunch& rank : ranks)
    all.push_back({&of(rank).interpreter_, of(rank).launchOf(rank)});
  Interpreter::launchMerged(all, stream);
}

void KernelEngine::launchExchanges(std::span<const GpuLaunch> ranks, cudaStream_t stream) {
  const auto transfers = [](const std::vector<executor::Transfer>& list) {
    std::vector<DeviceTransfer> all;
    for (const executor::Transfer& t : list) all.push_back({t.peer, t.data, t.bytes, t.type});
    return all;
  };
  std::vector<std::vector<DeviceTransfer>> held;
  std::vector<Interpreter::RankExchange> all;
  held.reserve(2 * ranks.size());  // spans point there
  for (const GpuLaunch& rank : ranks) {
    const auto& sends = held.emplace_back(transfers(rank.exchange->sends));
    const auto& receives = held.emplace_back(transfers(rank.exchange->receives));
    all.push_back({&of(rank).interpreter_, {sends, receives, rank.capture != 0}});
  }
  Interpreter::exchangeMerged(all, stream);
}

}  // namespace

std::unique_ptr<GpuEngine> makeKernelEngine(transports::p2p::P2pEndpoint& endpoint,
                                            const executor::kernel::InterpreterOptions& options,
                                            bool keepsLines,
                                            std::unique_ptr<transports::Endpoint> remote) {
  return std::make_unique<KernelEngine>(endpoint, options, keepsLines, std::move(remote));
}

}  // namespace tutti::communicator
