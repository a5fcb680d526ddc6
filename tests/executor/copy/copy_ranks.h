#pragma once

// Ranks of one process on devices, for tests of the executor of copy engines.

#include <memory>
#include <vector>

#include "src/executor/copy/copy_executor.h"
#include "tests/device/cuda_test.h"
#include "tests/executor/kernel/calls.h"

namespace tutti::tests {

using executor::Exchange;
using executor::Transfer;
using executor::copy::CopyExecutor;
using executor::copy::CopyOptions;

/// A call of a rank, of which tests change what they like.
struct CopyLaunch {
  const executor::PreparedPlan* plan = nullptr;
  executor::CollectiveCall call = {};
};
void launchOn(CopyExecutor& executor, const CopyLaunch& launch, cudaStream_t stream);
void exchangeOn(CopyExecutor& executor, const Exchange& exchange, cudaStream_t stream);

inline const transports::p2p::P2pLayout kCopyLayout{
    .rings = {.channels = 2, .slotCount = 4, .slotBytes = 4096},
    .lowLatencyBytes = 2048,
    .copySlotBytes = 4096};

struct CopyRanksOptions {
  int ranks = 2;
  int devices = 4;  ///< rank r is on device r modulo that, or modulo those that there are
  transports::p2p::P2pLayout layout = kCopyLayout;
  bool byHost = false;  ///< memory of the host joins all
  CopyOptions executor = {.deadlineNs = 60'000'000'000};
};

/// Whether CUDA can keep the streams of so many ranks apart on so many devices, or on those that
/// there are: a rank has up to seven, and a device at most 32 queues for all.
bool haveQueues(int ranks, int devices);

class CopyRanks {
 public:
  explicit CopyRanks(const CopyRanksOptions& options);
  ~CopyRanks();

  int size() const { return options_.ranks; }
  int deviceOf(int rank) const { return rank % devices_; }
  CopyExecutor& executor(int rank) { return *executors_[rank]; }
  cudaStream_t stream(int rank) { return streams_[rank]; }

  /// Launched on every rank, and waited for; each rank's memory. `shift` bytes off alignment.
  /// Throws what a rank has failed with.
  std::vector<Buffer> run(const Call& call, uint64_t seed, size_t shift = 0);

  // The parts of run(). The call outlives its launches.
  void begin(const Call& call, uint64_t seed, size_t shift = 0);
  CopyLaunch launchOf(int rank) const { return launches_[rank]; }
  DeviceBuffer& buffer(int rank) { return buffers_[rank]; }
  void launch(int rank) { launch(rank, launches_[rank]); }
  void launch(int rank, const CopyLaunch& launch) {
    launchOn(*executors_[rank], launch, streams_[rank]);
  }
  /// Until the streams of all ranks are empty; all ranks are watched meanwhile.
  void finish();
  /// The same, until all ranks have failed too, which takes them moments; those that had ended well
  /// hear of it later.
  void finishWithFailures();
  bool isIdle(int rank) const;
  /// Code and text of a rank's failure; `Internal` and nothing where there is none.
  Error failureOf(int rank) const;

 private:
  const CopyRanksOptions options_;
  const int devices_;
  std::vector<std::unique_ptr<DeviceEndpoint>> endpoints_;
  std::vector<std::unique_ptr<CopyExecutor>> executors_;
  std::vector<cudaStream_t> streams_;
  std::vector<std::unique_ptr<executor::PreparedPlan>> plans_;
  std::vector<CopyLaunch> launches_;
  std::vector<DeviceBuffer> buffers_, scalars_;
};

plan::ProgramOf programsOf(const plan::PlanSpec& spec);

/// Plans that stage all data: the executor runs no others.
std::vector<plan::PlanSpec> stagedPlans(int ranks, int channels);

/// What is captured of one launch on one rank.
cudaGraph_t captured(CopyRanks& ranks, int rank, const std::function<void()>& launch);

}  // namespace tutti::tests
