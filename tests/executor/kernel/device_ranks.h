#pragma once

// Ranks of one process on devices, for tests of the CUDA executor.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/executor/kernel/kernel_executor.h"
#include "tests/executor/kernel/reference.h"

namespace tutti::tests {

using executor::kernel::KernelExecutor;
using executor::kernel::KernelOptions;
using executor::kernel::KernelPlan;
using executor::kernel::Residency;
using DeviceEndpoint = transports::p2p::P2pEndpoint;
using transports::p2p::Wire;

/// A call of a rank, of which tests change what they like.
struct DeviceLaunch {
  const KernelPlan* plan = nullptr;
  executor::CollectiveCall call = {};
  Wire wire = Wire::Simple;
  uint32_t slices = 1;
  bool isCaptured = false;
};
void launchOn(KernelExecutor& executor, const DeviceLaunch& launch, cudaStream_t stream);
/// As KernelExecutor::launchCalls() has it.
struct RankCall {
  KernelExecutor* executor;
  DeviceLaunch launch;
};
void launchMerged(std::span<const RankCall> ranks, cudaStream_t stream);
void exchangeOn(KernelExecutor& executor, const executor::Exchange& exchange, cudaStream_t stream);

/// Endpoints of all ranks, not connected.
using RemoteNetwork = std::function<std::vector<std::unique_ptr<transports::Endpoint>>(
    int ranks, const transports::RingLayout& layout)>;

/// Whether the networks of these tests read and write memory of devices: the emulation's, which is
/// the host's. With GPUs all messages between hosts go through pinned memory.
bool networksReach();

struct DeviceRanksOptions {
  int ranks = 2;
  int devices = 4;  ///< rank r is on device r modulo that, or modulo those that there are
  transports::p2p::P2pLayout layout = {.rings = {.channels = 2, .slotCount = 4, .slotBytes = 4096},
                                       .lowLatencyBytes = 2048};
  KernelOptions executor = {.blocks = 8,
                            .threadsPerLane = 32,
                            .deadlineNs = 60'000'000'000,
                            .looksEvery = 256,
                            .arenaBytes = 1 << 20};
  uint32_t firstMessage = 0;
  bool byHost = false;  ///< memory of the host joins all
  /// By rank: ranks of different ones behave as if they were on different hosts, and `network`
  /// joins them. None: all are on one.
  std::vector<int> hosts = {};
  RemoteNetwork network = {};
  /// Between those: payloads that reach so far lie in memory of the devices, where networksReach().
  uint32_t directBytes = transports::p2p::kNoMessage;

  bool areRemote(int rank, int peer) const { return !hosts.empty() && hosts[rank] != hosts[peer]; }
};

/// Joins all ranks of one process by memory of the host.
void connectByHost(std::span<DeviceEndpoint* const> endpoints);

/// Bytes of a device at any distance from an aligned address.
class DeviceBuffer {
 public:
  DeviceBuffer(int device, const Buffer& bytes, size_t shift);
  std::byte* data() const { return reinterpret_cast<std::byte*>(memory_.data()) + shift_; }
  /// The legacy stream may share a queue with one that waits.
  Buffer download(cudaStream_t stream = nullptr) const;

 private:
  size_t bytes_, shift_;
  transports::p2p::DeviceMemory memory_;
};

/// So many devices, or all where there are fewer, as on a machine with one GPU.
int devicesOf(int wanted);

class DeviceRanks {
 public:
  explicit DeviceRanks(const DeviceRanksOptions& options);
  ~DeviceRanks();

  int size() const { return options_.ranks; }
  int deviceOf(int rank) const { return rank % devices_; }
  KernelExecutor& executor(int rank) { return *executors_[rank]; }
  DeviceEndpoint& endpoint(int rank) { return *endpoints_[rank]; }
  Residency& residency() { return residency_; }
  cudaStream_t stream(int rank) { return streams_[rank]; }

  /// Launched on every rank, and waited for; each rank's memory. `shift` bytes off alignment.
  std::vector<Buffer> run(const Call& call, Wire wire, uint64_t seed, size_t shift = 0,
                          uint32_t slices = 1);

  size_t slotBytes(Wire wire) const { return options_.layout.slotBytes(wire); }

  // The parts of run().
  void begin(const Call& call, Wire wire, uint64_t seed, size_t shift = 0, uint32_t slices = 1);
  DeviceLaunch launchOf(int rank) const { return launches_[rank]; }
  const KernelPlan& plan(int rank) const { return *plans_[rank]; }
  DeviceBuffer& buffer(int rank) { return buffers_[rank]; }
  void launch(int rank) { launch(rank, launches_[rank]); }
  void launch(int rank, const DeviceLaunch& launch) {
    launchOn(*executors_[rank], launch, streams_[rank]);
  }
  void wait(int rank);
  /// What `launches` enqueues on the rank's stream, as a graph.
  cudaGraphExec_t capture(int rank, const std::function<void()>& launches);
  cudaGraphExec_t capture(int rank) {
    return capture(rank, [&] { launch(rank); });
  }
  /// The rank leaves, its buffer stays.
  void destroy(int rank);

 private:
  std::vector<std::unique_ptr<transports::Endpoint>> remoteEndpoints() const;

  const DeviceRanksOptions options_;
  const int devices_;
  Residency residency_;
  std::vector<std::unique_ptr<DeviceEndpoint>> endpoints_;
  std::vector<std::unique_ptr<KernelExecutor>> executors_;
  std::vector<cudaStream_t> streams_;
  std::vector<std::unique_ptr<KernelPlan>> plans_;
  std::vector<DeviceLaunch> launches_;
  std::vector<DeviceBuffer> buffers_, scalars_;
};

/// What `launches` enqueues on a stream of a device, as a graph that the caller destroys.
cudaGraph_t capture(int device, cudaStream_t stream, const std::function<void()>& launches);

/// Connects all ranks, over the network those of different hosts.
void connectRanks(std::span<DeviceEndpoint* const> endpoints, const DeviceRanksOptions& options);

/// Every plan of these ranks, staged and mapped; those that depend on hosts where there are some.
std::vector<plan::PlanSpec> allPlans(int ranks, int channels, const std::vector<int>& hosts = {});

}  // namespace tutti::tests
