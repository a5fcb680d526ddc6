// A communicator that leaves while another one's call waits for a rank that is late: to free memory
// would wait for that call, and keep the rank from making it.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <list>

#include "src/communicator/cuda/cuda_ranks.h"
#include "tests/communicator/gpu/ranks.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr size_t kCount = 1000;

class GpuLeaving : public CudaTest {};

size_t memoryInUse() {
  size_t all = 0;
  for (int device = 0; device < devices(); ++device) {
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    all += total - free;
  }
  return all;
}

// What the test has of its own memory is freed behind that.
TEST_F(GpuLeaving, BesideACallThatWaitsHoldsUpNobody) {
  Setting waiting(2, 2, kCount, {.timeout = 60s});
  const size_t without = memoryInUse();
  std::list<Setting> others;
  others.emplace_back(2, 2, kCount);
  // A driver may keep some for others.
  const size_t kept = device::cudaSupport().emulated ? 0 : (memoryInUse() - without) / 2;
  waiting.ranks[0].allReduce(waiting.args(0, kCount), waiting.streams[0]);
  others.front().ranks.clear();  // which waits for 5 s
  // What is kept has no blocks, and those that leave wait no more.
  for (int turn = 0; turn < 6; ++turn) {
    Setting& other = others.emplace_back(2, 2, kCount);
    for (int r = 0; r < 2; ++r) other.ranks[r].allReduce(other.args(r, kCount), other.streams[r]);
    for (Stream& stream : other.streams) stream.synchronize();
    EXPECT_TRUE(other.values[0].are(3)) << turn;
    other.ranks.clear();
  }
  waiting.ranks[1].allReduce(waiting.args(1, kCount), waiting.streams[1]);
  for (int r = 0; r < 2; ++r) {
    waiting.streams[r].synchronize();
    EXPECT_TRUE(waiting.values[r].are(3)) << r;
    EXPECT_FALSE(waiting.ranks[r].asyncError()) << r;
  }
  others.clear();
  Setting(2, 2, kCount);  // what was kept goes with the next one that comes
  EXPECT_LE(memoryInUse(), without + kept);
}

// A launch waits where there is no room for more, until calls have ended that others are to make.
TEST_F(GpuLeaving, BesideALaunchThatWaitsIsDone) {
  const size_t without = memoryInUse();
  {
    Setting s(2, 2, kCount);
    const auto launching = communicator::CudaRanks::ofProcess().launching();
    s.ranks.clear();
  }
  Setting(2, 2, kCount);
  EXPECT_LE(memoryInUse(), without + (device::cudaSupport().emulated ? 0 : size_t{32} << 20));
}

// What it has launched waits for other work of the GPU, for which freeing memory would wait, too.
TEST_F(GpuLeaving, WhenItHasFailedWaitsForNoLaunch) {
  const size_t without = memoryInUse();
  {
    Setting s(2, 2, kCount);
    CudaGate first(s.streams[0]), second(s.streams[1]);
    for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
    s.ranks[0].abort();
    s.ranks.clear();
    Setting other(2, 2, kCount);
    for (int r = 0; r < 2; ++r) other.ranks[r].allReduce(other.args(r, kCount), other.streams[r]);
    for (int r = 0; r < 2; ++r) {
      other.streams[r].synchronize();
      EXPECT_TRUE(other.values[r].are(3)) << r;
    }
    first.open();
    second.open();
    for (int r = 0; r < 2; ++r) {
      s.streams[r].synchronize();
      EXPECT_TRUE(s.values[r].are(static_cast<float>(r + 1))) << r;
    }
  }
  Setting(2, 2, kCount);
  EXPECT_LE(memoryInUse(), without + (device::cudaSupport().emulated ? 0 : size_t{32} << 20));
}

}  // namespace
}  // namespace tutti::tests
