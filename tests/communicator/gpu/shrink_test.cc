// Communicators on GPUs that go on without ranks that have failed, or left: what waited for those
// ends, and the new one's collectives are right. By kernels and by copies, on GPUs of their own and
// on shared ones.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include "src/bootstrap/local_control_plane.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/local.h"
#include "tests/communicator/gpu/ranks.h"
#include "tests/support/collective_checks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "transports/shm/endpoint.h"

// What a rank copies after it has failed goes to slots that its peers may read at that moment: see
// tests/executor/copy/faults_test.cc.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:foldPiece\nrace:copyRows\n"; }

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr size_t kCount = 5000;

/// By copies, and the number of GPUs.
class GpuShrink : public CudaTest, public testing::WithParamInterface<std::tuple<bool, int>> {
 protected:
  static CommunicatorOptions options(int ranks) {
    const auto [byCopies, wanted] = GetParam();
    const int devices = std::min(wanted, deviceCount(DeviceKind::Cuda));
    CommunicatorOptions options{.setupTimeout = 60s, .timeout = 60s, .gpuCopies = byCopies};
    for (int r = 0; r < ranks; ++r) options.devices.push_back(gpu(r % devices));
    return options;
  }
};

/// All collectives.
void checkCollectives(Communicator& c) {
  Windows windows(c, 1 << 16);
  checkAll(c, {.count = 1000, .root = c.size() - 1, .windows = &windows});
  c.barrier();
}

/// A rank's call that needs all ranks, and its end.
ErrorCode failureOfACall(Setting& s, Communicator& c, int rank) {
  const Outcome outcome = outcomeOf([&] { c.allReduce(s.args(rank, kCount), s.streams[rank]); });
  s.streams[rank].synchronize();
  while (!c.asyncError()) std::this_thread::sleep_for(1ms);
  return c.asyncError()->code();
}

// The last one first, then one in the middle of the others. The failed ones are destroyed at the
// end: that frees memory, which waits for kernels, and those may wait for this rank.
TEST_P(GpuShrink, AfterOneDeathAndTheNext) {
  constexpr int kRanks = 4;
  auto planes = bootstrap::makeLocalControlPlanes(kRanks);
  const auto makeEndpoint = [](int rank) {
    return transports::shm::makeShmEndpoint(
        rank, kRanks, transports::shm::chooseLayout(kRanks, communicator::kChannels));
  };
  Setting s(communicator::makeLocal(kRanks, options(kRanks), makeEndpoint, planes), kCount);
  std::vector<std::unique_ptr<std::barrier<>>> meetings;
  for (const int alive : {4, 3}) meetings.push_back(std::make_unique<std::barrier<>>(alive));
  runRanks(s.ranks, [&](Communicator& c) {
    const int self = c.rank();
    checkCollectives(c);
    std::vector<Communicator> made;
    made.reserve(2);
    Communicator* now = &c;
    for (const int mortal : {3, 1}) {
      meetings[mortal == 3 ? 0 : 1]->arrive_and_wait();
      if (self == mortal) return bootstrap::killLocalRank(*planes[mortal], "died on purpose");
      EXPECT_EQ(failureOfACall(s, *now, self), ErrorCode::PeerLost) << self;
      now = &made.emplace_back(now->shrink());
      EXPECT_EQ(now->size(), mortal == 3 ? 3 : 2);
      EXPECT_EQ(now->device(), c.device());
      checkCollectives(*now);
    }
  });
}

// One of them is in no call. It is alive, and comes along.
TEST_P(GpuShrink, EndsWhatIsUnderWay) {
  Setting s(Communicator::createLocal(3, options(3)), kCount);
  runRanks(s.ranks, [&](Communicator& c) {
    if (c.rank() < 2) c.allReduce(s.args(c.rank(), kCount), s.streams[c.rank()]);
    Communicator next = c.shrink();
    s.streams[c.rank()].synchronize();
    EXPECT_EQ(next.size(), 3);
    checkCollectives(next);
  });
}

// Whose call waits on its stream for other work, so that its kernel tells nobody that it is over.
class GpuShrinkOfKernels : public CudaTest {};
TEST_F(GpuShrinkOfKernels, ByARankWhoseCallHasNotBegun) {
  Setting s(2, 2, kCount, {.setupTimeout = 60s, .timeout = 60s});
  CudaGate gate(s.streams[0]);
  runRanks(s.ranks, [&](Communicator& c) {
    c.allReduce(s.args(c.rank(), kCount), s.streams[c.rank()]);
    if (c.rank() == 1)
      while (!c.asyncError()) std::this_thread::sleep_for(1ms);
    Communicator next = c.shrink();
    EXPECT_EQ(next.size(), 2);
    EXPECT_EQ(c.asyncError()->code(), ErrorCode::Aborted);
  });
  gate.open();
  for (int r = 0; r < 2; ++r) {
    s.streams[r].synchronize();
    EXPECT_TRUE(s.values[r].are(static_cast<float>(r + 1))) << r;
  }
}

TEST_P(GpuShrink, AfterAnAbort) {
  Setting s(Communicator::createLocal(3, options(3)), kCount);
  runRanks(s.ranks, [&](Communicator& c) {
    if (c.rank() == 1)
      c.abort();
    else
      EXPECT_EQ(failureOfACall(s, c, c.rank()), ErrorCode::Aborted);
    Communicator next = c.shrink();
    EXPECT_EQ(next.size(), 3);
    checkCollectives(next);
  });
}

// It is destroyed while the others wait for it.
TEST_P(GpuShrink, WithoutARankThatHasLeft) {
  Setting s(Communicator::createLocal(3, options(3)), kCount);
  runRanks(s.ranks, [&](Communicator& c) {
    const int self = c.rank();
    if (self == 1) {
      const Communicator leaves = std::move(c);
      return;
    }
    EXPECT_EQ(failureOfACall(s, c, self), ErrorCode::PeerLost);
    Communicator next = c.shrink();
    EXPECT_EQ(next.size(), 2);
    checkCollectives(next);
  });
}

std::string nameOf(const testing::TestParamInfo<std::tuple<bool, int>>& how) {
  const auto [byCopies, devices] = how.param;
  return std::string(byCopies ? "CopiesOn" : "KernelsOn") + std::to_string(devices);
}

const auto kEveryHow = testing::Combine(testing::Bool(), testing::Values(1, 4));

INSTANTIATE_TEST_SUITE_P(By, GpuShrink, kEveryHow, nameOf);

}  // namespace
}  // namespace tutti::tests
