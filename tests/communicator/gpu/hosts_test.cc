// Communicators on GPUs whose ranks are as on several hosts: local ones are joined by p2p,
// remote ones by UCX through the host. What the callers see is the same.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "src/communicator/cuda/block_shares.h"
#include "src/communicator/gpu/gpu_join.h"
#include "tests/communicator/gpu/hosts.h"
#include "tests/support/collective_checks.h"
#include "tests/support/cut_connections.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

class GpuHosts : public CudaTest, public testing::WithParamInterface<std::vector<int>> {};

TEST_P(GpuHosts, AllGiveWhatIsKnown) {
  auto ranks = makeRanksOn(GetParam());
  // What isOrderedByItsDataAlone() of the executor's tests is about: short calls over hosts, too,
  // have lanes that read what others write when peers have added it.
  runRanks(ranks, [](Communicator& c) {
    if (kThreadSanitized)
      checkAllSizes(c, {false});
    else
      checkInAllPlaces(c);
  });
}

INSTANTIATE_TEST_SUITE_P(Placements, GpuHosts,
                         testing::Values(std::vector<int>{0, 1}, std::vector<int>{0, 0, 1, 1},
                                         std::vector<int>{0, 1, 1, 0, 2}));

class GpuHostCalls : public CudaTest {};

constexpr size_t kCount = 5000;

// Where the caller asks for a network, every rank is remote. On one GPU their kernels wait for each
// other there.
TEST_F(GpuHostCalls, OverTheNetworkAlone) {
  for (const char* const transport : {"tcp", "ucx"})
    for (const int devices : {2, 1}) {
      auto ranks = makeRanks(3, devices, {.transport = transport});
      runRanks(ranks, [](Communicator& c) {
        Windows windows(c, 2 << 20);
        for (const size_t count : {size_t{1}, size_t{30011}})
          checkAll(c, {.count = count, .windows = &windows});
      });
    }
}

/// Ranks of this process, far from each other, without communicators.
class RemoteJoins {
 public:
  /// Rank r's device is devices[r], and its network reaches GPUs where reachesGpus[r].
  RemoteJoins(const std::vector<Device>& devices, const std::vector<bool>& reachesGpus) {
    for (size_t r = 0; r < devices.size(); ++r)
      joins_.push_back(make(static_cast<int>(r), devices, reachesGpus[r]));
  }
  communicator::GpuJoin& operator[](int rank) { return *joins_[rank]; }
  void connect() {
    forPairs([&](int rank, int peer) { joins_[rank]->connect(peer, joins_[peer]->address(rank)); });
  }
  void makeReady() {
    forPairs([&](int rank, int peer) { joins_[rank]->hear(peer, {joins_[peer]->state()}); });
    for (auto& join : joins_) ready_.push_back(join->makeReady());
  }

 private:
  std::unique_ptr<communicator::GpuJoin> make(int rank, const std::vector<Device>& devices,
                                              bool reachesGpus) {
    const auto size = static_cast<int>(devices.size());
    workers_.push_back(transports::ucx::makeWorker());
    std::vector<bool> isRemote(devices.size(), true);
    isRemote[rank] = false;
    return communicator::makeGpuJoin({.device = devices[rank],
                                      .rank = rank,
                                      .size = size,
                                      .timeoutMs = 1000,
                                      .isRemote = isRemote,
                                      .reachesGpus = reachesGpus,
                                      .makeRemote = [&](const transports::RingLayout& layout) {
                                        return transports::ucx::makeUcxEndpoint(workers_.back(),
                                                                                rank, size, layout);
                                      }});
  }
  template <class Call>
  void forPairs(const Call& call) {
    const auto size = static_cast<int>(joins_.size());
    for (int rank = 0; rank < size; ++rank)
      for (int peer = 0; peer < size; ++peer)
        if (peer != rank) call(rank, peer);
  }
  std::vector<std::shared_ptr<transports::ucx::Worker>> workers_;
  std::vector<std::unique_ptr<communicator::GpuJoin>> joins_;
  std::vector<std::unique_ptr<communicator::GpuRank>> ready_;
};

// Where one of both cannot, neither does.
TEST_F(GpuHostCalls, GoFromGpuToGpuWhereBothReachThem) {
  const int devices = deviceCount(DeviceKind::Cuda);
  for (const bool other : {false, true}) {
    Ways ways;
    RemoteJoins sides({gpu(0), gpu(1 % devices)}, {true, other});
    sides.connect();
    sides.makeReady();
    EXPECT_EQ(ways.count(other ? 1 : 0, 1), 2) << other;
    EXPECT_EQ(sides[0].describe(1),
              "on " + toString(gpu(1 % devices)) +
                  (other ? " by ucx, from GPU to GPU" : " by ucx, through pinned memory"));
  }
}

// Two of three ranks are on one device, which has to hold the blocks of both, and each has as many
// as the other. The third is on another one, where there is one.
TEST_F(GpuHostCalls, ShareTheBlocksOfTheirDevice) {
  const uint32_t capacity = communicator::BlockShares::ofProcess().residency().capacity(0);
  const int third = deviceCount(DeviceKind::Cuda) - 1;
  const uint32_t here = third == 0 ? 3 : 2;
  RemoteJoins sides({gpu(0), gpu(0), gpu(third)}, {true, true, true});
  sides.connect();
  const uint32_t each = sides[0].state().blocks;
  EXPECT_EQ(each, std::min(communicator::wantedBlocks(here), capacity / (2 * here)));
  EXPECT_EQ(sides[1].state().blocks, each);
}

// On two hosts processes may have one id.
TEST_F(GpuHostCalls, OfAnotherProcessTakeNoBlocksHere) {
  const uint32_t capacity = communicator::BlockShares::ofProcess().residency().capacity(0);
  RemoteJoins sides({gpu(0), gpu(0)}, {true, true});
  transports::EndpointAddress address = sides[1].address(0);
  ASSERT_GT(address.blob.size(), 16U);
  address.blob[8] ^= std::byte{1};  // of the number behind the id
  sides[0].connect(1, address);
  EXPECT_EQ(sides[0].state().blocks, std::min(communicator::wantedBlocks(1), capacity / 2));
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

// Connections of tcp are made again.
TEST_F(GpuHostCalls, GoOnWhenAConnectionBreaks) {
  Setting s(makeRanksOn({0, 1}, {.transport = "shm+tcp"}), kCount);
  for (int round = 0; round < 3; ++round) {
    for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
    for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
    EXPECT_GT(cutConnections(), 0);
  }
  for (int r = 0; r < 2; ++r) EXPECT_FALSE(s.ranks[r].asyncError());
}

// Nobody calls anything.
TEST_F(GpuHostCalls, FailAtOnceWhenAConnectionOfUcxBreaks) {
  ::setenv("UCX_TLS", "tcp", 1);
  Setting s(makeRanksOn({0, 1}, {.transport = "shm+ucx"}), kCount);
  ::unsetenv("UCX_TLS");
  for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
  for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
  EXPECT_FALSE(s.ranks[0].asyncError());
  ASSERT_GT(cutConnections(), 0);
  for (int r = 0; r < 2; ++r) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!s.ranks[r].asyncError() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(s.ranks[r].asyncError()) << "rank " << r << " knows nothing of it";
    const Error error = *s.ranks[r].asyncError();
    EXPECT_EQ(error.code(), ErrorCode::PeerLost);
    for (const char* words :
         {"rank 0 (", "rank 1 (", "between calls with rank", "was lost: its connection broke"})
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
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
