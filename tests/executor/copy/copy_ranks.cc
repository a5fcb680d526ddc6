#include "tests/executor/copy/copy_ranks.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "collectives/algorithms.h"
#include "src/base/clock.h"
#include "src/device/any_stream.h"

namespace tutti::tests {

using device::OnDevice;

void launchOn(CopyExecutor& executor, const CopyLaunch& launch, cudaStream_t stream) {
  const executor::GpuLaunch one{.executor = &executor,
                                .plan = launch.plan,
                                .call = &launch.call,
                                .stream = device::AnyStream::cudaRef(stream, 0)};
  executor.launch({&one, 1});
}

void exchangeOn(CopyExecutor& executor, const Exchange& exchange, cudaStream_t stream) {
  const executor::GpuLaunch one{.executor = &executor,
                                .exchange = &exchange,
                                .stream = device::AnyStream::cudaRef(stream, 0)};
  executor.launch({&one, 1});
}

bool haveQueues(int ranks, int devices) { return ranks <= 3 * devicesOf(devices); }

CopyRanks::CopyRanks(const CopyRanksOptions& options)
    : options_(options), devices_(devicesOf(options.devices)) {
  std::vector<DeviceEndpoint*> endpoints;
  for (int r = 0; r < options.ranks; ++r) {
    endpoints_.push_back(
        std::make_unique<DeviceEndpoint>(deviceOf(r), r, options.ranks, options.layout));
    endpoints.push_back(endpoints_.back().get());
  }
  if (options.byHost)
    connectByHost(endpoints);
  else
    connectInProcess(endpoints, 30'000'000'000);
  for (int r = 0; r < options.ranks; ++r) {
    executors_.push_back(std::make_unique<CopyExecutor>(*endpoints_[r], options.executor));
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
    executor::CollectiveCall its =
        call.on(r, buffers_[r].data() + memory.in, buffers_[r].data() + memory.out);
    if (call.hasScalarInMemory) {
      its.scalar = 1.0;
      its.scalarAt = scalars_[r].data();
    }
    launches_.push_back({plans_.back().get(), std::move(its)});
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
  const auto failure = executors_[rank]->failure();
  return failure ? Error(*failure) : Error(ErrorCode::Internal, "");
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
