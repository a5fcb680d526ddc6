// Ranks as processes that share GPUs: two on one, four on two. The test's process itself never
// calls CUDA.

#include <gtest/gtest.h>

#include <thread>

#include "tests/executor/copy/copy_ranks.h"
#include "tests/executor/kernel/hub.h"

namespace tutti::tests {
namespace {

/// One rank's process.
class Rank {
 public:
  Rank(Hub& hub, int rank, int ranks, int devices)
      : hub_(hub), rank_(rank), ranks_(ranks), device_(rank % devicesOf(devices)) {
    TUTTI_CUDA(cudaSetDevice(device_));
    endpoint_ = std::make_unique<DeviceEndpoint>(device_, rank, ranks, kCopyLayout);
    const auto addresses = hub.exchange(rank, endpoint_->address().blob);
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) endpoint_->connect(peer, addresses[peer]);
    hub.exchange(rank, kHere);  // all are ready to be written to
    endpoint_->startProbe(1, 30'000'000'000);
    for (const std::string& fault : endpoint_->finishProbe()) TUTTI_ASSERT(fault.empty(), fault);
    executor_ = std::make_unique<CopyExecutor>(*endpoint_);
    TUTTI_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  CopyExecutor& executor() { return *executor_; }
  cudaStream_t stream() { return stream_; }

  void finish() {
    while (cudaStreamQuery(stream_) == cudaErrorNotReady) {
      executor_->watch();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  /// Whether its memory is as on the host after a call.
  bool isRight(const Call& call, uint64_t seed) {
    const Memory memory = memoryOf(call, rank_, seed);
    const auto plan = executor_->prepare(call.spec, programsOf(call.spec));
    DeviceBuffer buffer(device_, memory.bytes, 0);
    launchOn(*executor_,
             {plan.get(), call.on(rank_, buffer.data() + memory.in, buffer.data() + memory.out)},
             stream_);
    finish();
    if (const auto failed = executor_->failure()) throw *failed;
    return buffer.download() == hostResult(call, seed, kCopyLayout.copySlotBytes)[rank_].bytes;
  }
  /// To the next rank and from the one before, in several messages.
  bool passesOn(uint64_t seed) {
    constexpr size_t kBytes = 20'000;
    const auto dataOf = [&](int rank) {
      return Buffer(kBytes, std::byte(10 * seed + static_cast<uint64_t>(rank)));
    };
    DeviceBuffer from(device_, dataOf(rank_), 0), to(device_, Buffer(kBytes), 0);
    const int next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_;
    exchangeOn(*executor_,
               {.sends = {{next, from.data(), kBytes}}, .receives = {{before, to.data(), kBytes}}},
               stream_);
    finish();
    return !executor_->failure() && to.download() == dataOf(before);
  }

 private:
  Hub& hub_;
  const int rank_, ranks_, device_;
  std::unique_ptr<DeviceEndpoint> endpoint_;
  std::unique_ptr<CopyExecutor> executor_;
  cudaStream_t stream_ = nullptr;
};

int runRank(Hub& hub, int rank, int ranks, int devices) {
  Rank self(hub, rank, ranks, devices);
  bool right = true;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    right &= self.isRight(ringCall(ranks, 3000), seed);
    for (const auto& spec : stagedPlans(ranks, 1))
      right &= seed > 1 || self.isRight({.spec = spec, .count = 1100}, seed);
    right &= self.passesOn(seed);
  }
  hub.exchange(rank, kHere);  // nobody writes to this one's memory any more
  return right ? 0 : 2;
}

class CopyProcesses : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(CopyProcesses, ShareDevices) {
  const auto [count, devices] = GetParam();
  RanksAtHub ranks(count, [count = count, devices = devices](Hub& hub, int rank) {
    return runRank(hub, rank, count, devices);
  });
  ranks.serve(3);
  ranks.expectSuccess(count);
}

INSTANTIATE_TEST_SUITE_P(All, CopyProcesses,
                         testing::Values(std::pair{2, 1}, std::pair{4, 2}, std::pair{3, 4}));

int abortRank(Hub& hub, int rank) {
  Rank self(hub, rank, 2, 1);
  const Call call = ringCall(2, 3000);
  const auto plan = self.executor().prepare(call.spec, programsOf(call.spec));
  DeviceBuffer buffer(0, memoryOf(call, rank, 1).bytes, 0);
  if (rank == 0)
    self.executor().abort();
  else
    launchOn(self.executor(), {plan.get(), call.on(rank, buffer.data(), buffer.data())},
             self.stream());
  self.finish();
  hub.exchange(rank, kHere);
  const auto failed = self.executor().failure();
  return failed && failed->code() == (rank == 0 ? ErrorCode::Aborted : ErrorCode::PeerLost) ? 0 : 2;
}

TEST(CopyProcess, HearsOfAnAbort) {
  RanksAtHub ranks(2, abortRank);
  ranks.serve(3);
  ranks.expectSuccess(2);
}

}  // namespace
}  // namespace tutti::tests
