// Collectives on emulated GPUs that are made by copies because the program asks for it.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/communicator/gpu/ranks.h"
#include "tests/support/local_ranks.h"

namespace tutti::tests {
namespace {

class GpuCopies : public CudaTest {};

constexpr size_t kCount = 5000;

TEST_F(GpuCopies, GiveWhatIsKnown) {
  for (const int devices : {1, 2}) {
    auto ranks = makeRanks(3, devices, {.gpuCopies = true});
    runRanks(ranks, checkInAllPlaces);
  }
}

// Kernels would address the ranks' buffers here.
TEST_F(GpuCopies, OfLargeBuffersGoThroughSlotsToo) {
  constexpr size_t kMany = 1 << 20;
  Setting s(2, 2, kMany, {.gpuCopies = true});
  for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kMany), s.streams[r]);
  for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(3)) << r;
}

TEST_F(GpuCopies, AreCapturedWithoutKernels) {
  for (const bool byCopies : {false, true}) {
    Setting s(2, 2, 3 * kCount, {.gpuCopies = byCopies});
    for (int r = 0; r < 2; ++r) {
      const cudaStream_t stream = StreamRef(s.streams[r]).cuda();
      ASSERT_EQ(cudaSetDevice(s.ranks[r].device().index), cudaSuccess);
      ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
      s.ranks[r].allGather({.send = s.values[r].data(),
                            .recv = s.values[r].data() + kCount,
                            .count = kCount,
                            .type = DataType::Float32},
                           s.streams[r]);
      cudaGraph_t graph;
      ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
      EXPECT_EQ(kernelsOf(graph), byCopies ? 0U : 1U);
      ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
  }
}

// Beside the transport of the host's memory.
TEST_F(GpuCopies, AreDescribed) {
  for (const bool byCopies : {false, true}) {
    const auto ranks = makeRanks(2, 2, {.gpuCopies = byCopies});
    const std::string text = ranks[0].describe();
    const std::string own = ", on " + toString(ranks[0].device()) + "\n";
    const std::string other = " by shm, on " + toString(ranks[1].device()) + " by p2p" +
                              (byCopies ? ", with copies\n" : "\n");
    EXPECT_NE(text.find(own), text.npos) << text;
    EXPECT_NE(text.find(other), text.npos) << text;
  }
}

// Large ones, of which a stream does not take all.
TEST_F(GpuCopies, OfRanksOfOneGpuMayBeMadeTogether) {
  constexpr size_t kLarge = 10 << 20;
  for (const bool shareStream : {false, true}) {
    Setting s(3, 1, kLarge, {.timeout = std::chrono::seconds(60), .gpuCopies = true});
    std::vector<Floats> received;
    for (int r = 0; r < 3; ++r) received.emplace_back(gpu(0), kLarge, 0.0f);
    {
      Group group;
      for (int r = 0; r < 3; ++r) {
        const StreamRef stream = s.streams[shareStream ? 0 : r];
        s.ranks[r].send({s.values[r].data(), kLarge, DataType::Float32, (r + 1) % 3}, stream);
        s.ranks[r].receive({received[r].data(), kLarge, DataType::Float32, (r + 2) % 3}, stream);
      }
    }
    {
      Group group;
      for (int r = 0; r < 3; ++r)
        s.ranks[r].allReduce(s.args(r, kLarge), s.streams[shareStream ? 0 : r]);
    }
    for (int r = 0; r < 3; ++r) s.streams[r].synchronize();
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(received[r].are(static_cast<float>((r + 2) % 3 + 1))) << r;
      EXPECT_TRUE(s.values[r].are(6)) << r;
    }
  }
}

// The one rank that asks does so for both.
TEST_F(GpuCopies, OfOneRankAreThoseOfAll) {
  CommunicatorOptions options{.id = UniqueId::create(UniqueId::Reach::Host), .size = 2};
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([=]() mutable {
      options.rank = r;
      options.device = gpu(r % deviceCount(DeviceKind::Cuda));
      options.gpuCopies = r == 1;
      Communicator c = Communicator::create(options);
      checkInAllPlaces(c);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tutti::tests
