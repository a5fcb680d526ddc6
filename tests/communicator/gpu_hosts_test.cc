// Communicators on GPUs whose ranks are as on several hosts: near ones are joined by p2p,
// far ones by UCX through the host. What the callers see is the same.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <tutti/log.h>
#include "src/base/check.h"
#include "src/base/env.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/gpu.h"
#include "src/communicator/local.h"
#include "tests/communicator/gpu_ranks.h"
#include "tests/emulation/runtime/device.h"
#include "tests/support/collective_checks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"

namespace tutti::tests {
namespace {

using bootstrap::ControlPlane;
using bootstrap::PeerInfo;

/// One rank's end of a control plane that says which rank is on which host.
class PlacedPlane final : public ControlPlane {
 public:
  PlacedPlane(std::shared_ptr<ControlPlane> inner, const std::vector<int>& hosts)
      : inner_(std::move(inner)) {
    for (int r = 0; r < inner_->size(); ++r) {
      peers_.push_back(inner_->peer(r));
      peers_.back().bootId += base::message("/", hosts[r]);
    }
  }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const PeerInfo& peer(int rank) const override { return peers_[rank]; }
  void send(int to, bootstrap::ControlMessage message) override {
    inner_->send(to, std::move(message));
  }
  void listen(uint64_t channel, bootstrap::ControlListener* listener) override {
    inner_->listen(channel, listener);
  }
  void ignore(uint64_t channel) override { inner_->ignore(channel); }
  bool runs(int rank) const override { return inner_->runs(rank); }
  void leave() override { inner_->leave(); }

 private:
  const std::shared_ptr<ControlPlane> inner_;
  std::vector<PeerInfo> peers_;
};

/// Rank r on device r modulo as many as there are, as on these hosts.
std::vector<Communicator> makeRanksOn(const std::vector<int>& hosts,
                                      CommunicatorOptions options = {}) {
  const auto size = static_cast<int>(hosts.size());
  std::vector<std::shared_ptr<ControlPlane>> planes;
  for (auto& plane : bootstrap::makeLocalControlPlanes(size))
    planes.push_back(std::make_shared<PlacedPlane>(std::move(plane), hosts));
  for (int r = 0; r < size; ++r) options.devices.push_back(gpu(r % deviceCount(DeviceKind::Cuda)));
  const topology::Topology topology{.ranks = size, .hostOf = hosts};
  return communicator::makeLocal(
      size, options,
      [&](int rank) {
        return communicator::makeEndpoint(rank, topology, "", transports::ucx::makeWorker());
      },
      std::move(planes));
}

class GpuHosts : public CudaTest, public testing::WithParamInterface<std::vector<int>> {};

TEST_P(GpuHosts, AllGiveWhatIsKnown) {
  auto ranks = makeRanksOn(GetParam());
  runRanks(ranks, checkAllSizes);
}

INSTANTIATE_TEST_SUITE_P(Placements, GpuHosts,
                         testing::Values(std::vector<int>{0, 1}, std::vector<int>{0, 0, 1, 1},
                                         std::vector<int>{0, 1, 1, 0, 2}));

class GpuHostCalls : public CudaTest {};

constexpr size_t kCount = 5000;

// Where the caller asks for UCX, every rank is far.
TEST_F(GpuHostCalls, OverUcxAlone) {
  auto ranks = makeRanks(3, 2, {.transport = "ucx"});
  runRanks(ranks, [](Communicator& c) {
    Windows windows(c, 2 << 20);
    for (const size_t count : {size_t{1}, size_t{30011}})
      checkAll(c, {.count = count, .windows = &windows});
  });
}

/// What ranks say of their way to other hosts, while it lives.
class Ways {
 public:
  Ways() {
    setLogSink([this](LogLevel, std::string_view line) {
      const std::lock_guard lock(mutex_);
      if (line.find("from GPU to GPU") != line.npos) lines_.emplace_back(line);
    });
  }
  ~Ways() { setLogSink({}); }
  /// Ranks that have said that they reach so many of so many others.
  ptrdiff_t count(int direct, int far) {
    const std::lock_guard lock(mutex_);
    const std::string words =
        base::message(": with ", direct, " of ", far, " ranks on other hosts");
    return std::ranges::count_if(
        lines_, [&](const std::string& line) { return line.find(words) != line.npos; });
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// Several slices, of several rounds. Long messages go from GPU to GPU where they are asked for, and
// here not without.
TEST_F(GpuHostCalls, OfManyBytes) {
  constexpr size_t kMany = 1 << 20;
  const uint64_t flushes = emulation::deviceAt(2).flushes;
  const bool isDirect = base::env().gpuDirect.value_or(false);
  Ways ways;
  Setting s(makeRanksOn({0, 0, 1}), kMany);
  EXPECT_EQ(ways.count(isDirect ? 1 : 0, 1), 2);
  EXPECT_EQ(ways.count(isDirect ? 2 : 0, 2), 1);
  for (int r = 0; r < 3; ++r) s.ranks[r].allReduce(s.args(r, kMany), s.streams[r]);
  for (int r = 0; r < 3; ++r) s.streams[r].synchronize();
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(s.values[r].are(6)) << r;
  EXPECT_EQ(emulation::deviceAt(2).flushes > flushes, isDirect);
}

// Where one of both cannot, neither does.
TEST_F(GpuHostCalls, GoFromGpuToGpuWhereBothReachThem) {
  for (const bool other : {false, true}) {
    Ways ways;
    std::vector<std::shared_ptr<transports::ucx::Worker>> workers;
    std::vector<std::unique_ptr<communicator::GpuSide>> sides;
    for (int r = 0; r < 2; ++r) {
      workers.push_back(transports::ucx::makeWorker());
      sides.push_back(communicator::makeGpuSide(
          {.device = gpu(r),
           .rank = r,
           .size = 2,
           .timeoutMs = 1000,
           .isFar = {r == 1, r == 0},
           .reachesGpus = r == 0 || other,
           .makeFar = [&](const transports::RingLayout& layout) {
             return transports::ucx::makeUcxEndpoint(workers.back(), r, 2, layout);
           }}));
    }
    for (int r = 0; r < 2; ++r) sides[r]->connect(1 - r, sides[1 - r]->address(r));
    for (int r = 0; r < 2; ++r) sides[r]->hear(1 - r, sides[1 - r]->state());
    for (auto& side : sides) side->makeReady();
    EXPECT_EQ(ways.count(other ? 1 : 0, 1), 2) << other;
  }
}

TEST_F(GpuHostCalls, AreCapturedAndReplayed) {
  Setting s(makeRanksOn({0, 1, 1}), kCount);
  checkReplays(s, kCount, 1, 5);
}

TEST_F(GpuHostCalls, SendAndReceiveInARing) {
  constexpr size_t kLarge = 300'000;  // many slots
  Setting s(makeRanksOn({0, 1, 1}), kLarge);
  std::vector<Floats> received;
  for (int r = 0; r < 3; ++r) received.emplace_back(s.ranks[r].device(), kLarge, 0.0f);
  for (const size_t count : {size_t{1}, kLarge}) {
    Group group;
    for (int r = 0; r < 3; ++r) {
      s.ranks[r].send({s.values[r].data(), count, DataType::Float32, (r + 1) % 3}, s.streams[r]);
      s.ranks[r].receive({received[r].data(), count, DataType::Float32, (r + 2) % 3}, s.streams[r]);
    }
  }
  for (int r = 0; r < 3; ++r) {
    s.streams[r].synchronize();
    EXPECT_TRUE(received[r].are(static_cast<float>((r + 2) % 3 + 1))) << r;
  }
}

TEST_F(GpuHostCalls, ThatDisagreeAreAMismatchWithBothSides) {
  Setting s(makeRanksOn({0, 1}), kCount);
  runRanks(s.ranks, [&](Communicator& c) {
    const size_t count = c.rank() == 0 ? kCount : kCount - 1;
    const Outcome outcome = outcomeOf([&] { c.allReduce(s.args(c.rank(), count)); });
    expectError(outcome, ErrorCode::Mismatch, "all_reduce of 5000 float32");
    expectError(outcome, ErrorCode::Mismatch, "all_reduce of 4999 float32");
  });
}

TEST_F(GpuHostCalls, ThatNobodyElseMakesEndByTheirDeadline) {
  Setting s(makeRanksOn({0, 1}, {.timeout = std::chrono::milliseconds(300)}), kCount);
  const Outcome outcome = outcomeOf([&] { s.ranks[0].allReduce(s.args(0, kCount)); });
  expectError(outcome, ErrorCode::Timeout, "did not complete within 300 ms");
  expectError(outcome, ErrorCode::Timeout, "it waits for rank 1");
}

TEST_F(GpuHostCalls, OfARankThatFailsEndTheOthers) {
  Setting s(makeRanksOn({0, 1, 1}), kCount);
  for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
  s.ranks[2].abort();
  for (int r = 0; r < 2; ++r) {
    s.streams[r].synchronize();
    expectError(outcomeOf([&] {
                  while (true) s.ranks[r].barrier(s.streams[r]), s.streams[r].synchronize();
                }),
                ErrorCode::Aborted, "reported by rank 2");
  }
}

// What it has sent to the other host is not there yet when its own part has ended.
TEST_F(GpuHostCalls, GoOnWhenARankThatHasDoneItsPartLeaves) {
  for (int turn = 0; turn < 3; ++turn) {
    Setting s(makeRanksOn({0, 1}), kCount);
    const auto broadcast = [&](int r) {
      s.ranks[r].broadcast({.send = s.values[r].data(),
                            .recv = s.values[r].data(),
                            .count = kCount,
                            .type = DataType::Float32,
                            .root = 1},
                           s.streams[r]);
    };
    broadcast(1);
    s.streams[1].synchronize();
    std::thread leaving([&] { s.ranks.pop_back(); });
    broadcast(0);
    s.streams[0].synchronize();
    leaving.join();
    EXPECT_TRUE(s.values[0].are(2));
  }
}

}  // namespace
}  // namespace tutti::tests
