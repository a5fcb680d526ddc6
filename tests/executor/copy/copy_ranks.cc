#include "tests/executor/copy/copy_ranks.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "collectives/algorithms.h"
#include "src/base/clock.h"

namespace tutti::tests {

using device::OnDevice;

bool haveQueues(int ranks, int devices) { return ranks <= 3 * devicesOf(devices); }

CopyRanks::CopyRanks(const CopyRanksOptions& options)
    : options_(options), devices_(devicesOf(options.devices)) {
  std::vector<DeviceEndpoint*> endpoints;
  for (int r = 0; r < options.ranks; ++r) {
    endpoints_.push_back(
        std::make_unique<DeviceEndpoint>(deviceOf(r), r, options.ranks, options.layout));
    endpoints.push_back(endpoints_.back().get());
  }
  connectInProcess(endpoints, 30'000'000'000);
  for (int r = 0; r < options.ranks; ++r) {
    executors_.push_back(std::make_unique<StreamExecutor>(*endpoints_[r], options.executor));
    OnDevice on(deviceOf(r));
    TUTTI_CUDA(cudaStreamCreateWithFlags(&streams_.emplace_back(), cudaStreamNonBlocking));
  }
}

CopyRanks::~CopyRanks() {
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

void CopyRanks::begin(const Call& call, uint64_t seed, size_t shift) {
  plans_.clear();
  launches_.clear();
  buffers_.clear();
  scalars_.clear();
  for (int r = 0; r < size(); ++r) {
    const Memory memory = memoryOf(call, r, seed);
    buffers_.emplace_back(deviceOf(r), memory.bytes, shift);
    if (call.hasScalarInMemory) scalars_.emplace_back(deviceOf(r), call.scalarElement(r), 1);
    plans_.push_back(executors_[r]->prepare(call.spec, programsOf(call.spec)));
    launches_.push_back({.plan = plans_.back().get(),
                         .in = buffers_[r].data() + memory.in,
                         .out = buffers_[r].data() + memory.out,
                         .count = call.count,
                         .blocks = call.blocks,
                         .type = call.type,
                         .op = call.op,
                         .scalar = call.hasScalarInMemory ? 1.0 : call.scalar(r),
                         .scalarAt = call.hasScalarInMemory ? scalars_[r].data() : nullptr,
                         .deterministic = call.deterministic,
                         .callHash = 77});
  }
}

bool CopyRanks::isIdle(int rank) const {
  OnDevice on(deviceOf(rank));
  const cudaError_t error = cudaStreamQuery(streams_[rank]);
  if (error == cudaErrorNotReady) return false;
  TUTTI_CUDA(error);
  return true;
}

void CopyRanks::finish() {
  for (bool isBusy = true; isBusy;) {
    isBusy = false;
    for (int r = 0; r < size(); ++r) {
      executors_[r]->watch();
      isBusy |= !isIdle(r);
    }
    if (isBusy) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void CopyRanks::finishWithFailures() {
  const auto hasFailed = [](const auto& executor) { return executor->failure().has_value(); };
  const auto end = base::Deadline::after(std::chrono::seconds(20));
  do finish();
  while (!std::ranges::all_of(executors_, hasFailed) && !end.passed());
}

Error CopyRanks::failureOf(int rank) const {
  return executors_[rank]->failure().value_or(Error(ErrorCode::Internal, ""));
}

std::vector<Buffer> CopyRanks::run(const Call& call, uint64_t seed, size_t shift) {
  begin(call, seed, shift);
  for (int r = 0; r < size(); ++r) launch(r);
  finish();
  std::vector<Buffer> results;
  for (int r = 0; r < size(); ++r) {
    if (const auto failed = executors_[r]->failure()) throw *failed;
    results.push_back(buffers_[r].download());
  }
  return results;
}

plan::ProgramOf programsOf(const plan::PlanSpec& spec) {
  return [spec](int rank) { return collectives::build(spec, rank); };
}

std::vector<plan::PlanSpec> stagedPlans(int ranks, int channels) {
  std::vector<plan::PlanSpec> plans = allPlans(ranks, channels);
  std::erase_if(plans, [](const plan::PlanSpec& spec) { return spec.mapped.any(); });
  return plans;
}

cudaGraph_t captured(CopyRanks& ranks, int rank, const std::function<void()>& launch) {
  return capture(ranks.deviceOf(rank), ranks.stream(rank), launch);
}

}  // namespace tutti::tests
