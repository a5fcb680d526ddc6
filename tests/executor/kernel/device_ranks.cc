#include "tests/executor/kernel/device_ranks.h"

#include <algorithm>
#include <cstdio>

#include <tutti/device.h>

#include "collectives/algorithms.h"
#include "src/device/cuda.h"
#include "transports/p2p/owned_memory.h"

namespace tutti::tests {

using device::OnDevice;

DeviceBuffer::DeviceBuffer(int device, const Buffer& bytes, size_t shift)
    : bytes_(bytes.size()), shift_(shift), memory_(device, bytes.size() + shift + 16) {
  if (bytes_ > 0) memory_.upload(bytes.data(), bytes_, shift);
}

Buffer DeviceBuffer::download(cudaStream_t stream) const {
  Buffer bytes(bytes_);
  TUTTI_CUDA(cudaMemcpyAsync(bytes.data(), data(), bytes_, cudaMemcpyDeviceToHost, stream));
  TUTTI_CUDA(cudaStreamSynchronize(stream));
  return bytes;
}

void launchOn(KernelExecutor& executor, const DeviceLaunch& launch, cudaStream_t stream) {
  const RankCall one{&executor, launch};
  launchMerged({&one, 1}, stream);
}

void launchMerged(std::span<const RankCall> ranks, cudaStream_t stream) {
  std::vector<executor::kernel::KernelLaunch> all;
  for (const auto& [executor, launch] : ranks)
    all.push_back(
        {executor, launch.plan, &launch.call, launch.isCaptured, launch.wire, launch.slices});
  KernelExecutor::launchCalls(all, stream);
}

void exchangeOn(KernelExecutor& executor, const executor::Exchange& exchange, cudaStream_t stream) {
  const executor::kernel::KernelExchange one{&executor, &exchange};
  KernelExecutor::launchExchanges({&one, 1}, stream);
}

bool networksReach() { return device::cudaSupport().emulated; }

static DeviceRanksOptions withinReach(DeviceRanksOptions options) {
  if (networksReach() || options.directBytes == transports::p2p::kNoMessage) return options;
  fprintf(stderr,
          "no network of this test reaches memory of GPUs: all goes through pinned memory\n");
  options.directBytes = transports::p2p::kNoMessage;
  return options;
}

int devicesOf(int wanted) { return std::min(wanted, deviceCount(DeviceKind::Cuda)); }

DeviceRanks::DeviceRanks(const DeviceRanksOptions& options)
    : options_(withinReach(options)), devices_(devicesOf(options.devices)) {
  std::vector<DeviceEndpoint*> endpoints;
  for (int r = 0; r < options.ranks; ++r) {
    endpoints_.push_back(std::make_unique<DeviceEndpoint>(deviceOf(r), r, options.ranks,
                                                          options.layout, options.firstMessage));
    endpoints.push_back(endpoints_.back().get());
  }
  if (options.byHost)
    connectByHost(endpoints);
  else
    connectRanks(endpoints, options_);
  auto remote = remoteEndpoints();
  for (int r = 0; r < options.ranks; ++r) {
    executors_.push_back(
        std::make_unique<KernelExecutor>(*endpoints_[r], residency_, options.executor,
                                         options.network ? std::move(remote[r]) : nullptr));
    OnDevice on(deviceOf(r));
    TUTTI_CUDA(cudaStreamCreateWithFlags(&streams_.emplace_back(), cudaStreamNonBlocking));
  }
}

std::vector<std::unique_ptr<transports::Endpoint>> DeviceRanks::remoteEndpoints() const {
  if (!options_.network) return {};
  auto all = options_.network(options_.ranks, executor::kernel::remoteLayout(options_.layout));
  for (int r = 0; r < options_.ranks; ++r)
    for (int peer = 0; peer < options_.ranks; ++peer)
      if (r != peer) all[r]->connect(peer, all[peer]->address(r));
  for (int r = 0; r < options_.ranks; ++r)
    for (int peer = 0; peer < options_.ranks; ++peer)
      if (endpoints_[r]->isThroughHost(peer))
        executor::kernel::goDirect(*endpoints_[r], *all[r], peer);
  return all;
}

void connectByHost(std::span<DeviceEndpoint* const> endpoints) {
  for (DeviceEndpoint* endpoint : endpoints) {
    std::vector<int> others;
    for (int peer = 0; peer < endpoint->size(); ++peer)
      if (peer != endpoint->rank()) others.push_back(peer);
    endpoint->openHostMemory(others);
  }
  for (DeviceEndpoint* from : endpoints)
    for (DeviceEndpoint* to : endpoints)
      if (from != to) to->connectByHost(from->rank(), from->hostAddress().blob);
  probeInProcess(endpoints, 30'000'000'000);
}

void connectRanks(std::span<DeviceEndpoint* const> endpoints, const DeviceRanksOptions& options) {
  for (DeviceEndpoint* from : endpoints)
    for (DeviceEndpoint* to : endpoints) {
      if (from == to) continue;
      if (options.areRemote(from->rank(), to->rank()))
        to->connectThroughHost(from->rank(), options.directBytes);
      else
        to->connect(from->rank(), from->address().blob);
    }
  probeInProcess(endpoints, 30'000'000'000);
}

DeviceRanks::~DeviceRanks() {
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

void DeviceRanks::begin(const Call& call, Wire wire, uint64_t seed, size_t shift, uint32_t slices) {
  plans_.clear();
  launches_.clear();
  buffers_.clear();
  scalars_.clear();
  for (int r = 0; r < size(); ++r) {
    const Memory memory = memoryOf(call, r, seed);
    buffers_.emplace_back(deviceOf(r), memory.bytes, shift);
    if (call.hasScalarInMemory) scalars_.emplace_back(deviceOf(r), call.scalarElement(r), 1);
    plans_.push_back(executors_[r]->prepareProgram(call.spec, collectives::build(call.spec, r)));
    executor::CollectiveCall its =
        call.on(r, buffers_[r].data() + memory.in, buffers_[r].data() + memory.out);
    if (call.hasScalarInMemory) {
      its.scalar = 1.0;
      its.scalarAt = scalars_[r].data();
    }
    launches_.push_back({plans_.back().get(), std::move(its), wire, slices});
  }
}

void DeviceRanks::wait(int rank) {
  OnDevice on(deviceOf(rank));
  TUTTI_CUDA(cudaStreamSynchronize(streams_[rank]));
}

cudaGraph_t capture(int device, cudaStream_t stream, const std::function<void()>& launches) {
  cudaGraph_t graph = nullptr;
  OnDevice on(device);
  TUTTI_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  launches();
  TUTTI_CUDA(cudaStreamEndCapture(stream, &graph));
  return graph;
}

cudaGraphExec_t DeviceRanks::capture(int rank, const std::function<void()>& launches) {
  OnDevice on(deviceOf(rank));
  cudaGraph_t graph = tests::capture(deviceOf(rank), stream(rank), launches);
  cudaGraphExec_t exec = nullptr;
  TUTTI_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  TUTTI_CUDA(cudaGraphDestroy(graph));
  return exec;
}

void DeviceRanks::destroy(int rank) {
  plans_[rank].reset();
  executors_[rank].reset();
  endpoints_[rank].reset();
}

std::vector<Buffer> DeviceRanks::run(const Call& call, Wire wire, uint64_t seed, size_t shift,
                                     uint32_t slices) {
  begin(call, wire, seed, shift, slices);
  for (int r = 0; r < size(); ++r) launch(r);
  std::vector<Buffer> results;
  for (int r = 0; r < size(); ++r) wait(r);
  for (int r = 0; r < size(); ++r) {
    if (const auto failed = executors_[r]->failure()) throw *failed;
    results.push_back(buffers_[r].download());
  }
  return results;
}

std::vector<plan::PlanSpec> allPlans(int ranks, int channels, const std::vector<int>& hosts) {
  std::vector<plan::PlanSpec> plans;
  for (const auto& info : collectives::registry().algorithms())
    for (const auto protocol : {plan::Protocol::Simple, plan::Protocol::Mapped})
      for (int c = 0; c < plan::kCollectiveCount; ++c)
        if (auto spec = info.spec(
                {static_cast<plan::Collective>(c), protocol, ranks, ranks - 1, channels, hosts}))
          plans.push_back(*spec);
  return plans;
}

}  // namespace tutti::tests
