// How many kernels a group of calls on emulated GPUs is: of each rank one for what follows each
// other on a stream and is alike in size of elements and wire; and one of all ranks that share a
// stream.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/communicator/gpu/ranks.h"
#include "tests/emulation/runtime/launched_kernels.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"

namespace tutti::tests {
namespace {

using emulation::LaunchedKernels;

constexpr size_t kCount = 500;
constexpr int kRanks = 3;

class GpuLaunches : public CudaTest {
 protected:
  /// Kernels of collectives that `calls` asks for, waited for on all streams.
  static int64_t launchesOf(Setting& s, const std::function<void()>& calls) {
    const LaunchedKernels kernels;
    calls();
    for (Stream& stream : s.streams) stream.synchronize();
    return kernels.of("interpret").asked;
  }
  static void expect(const Setting& s, float value) {
    for (const Floats& values : s.values) EXPECT_TRUE(values.are(value));
  }
  static void sum(Setting& s, int r, StreamRef stream, size_t count = kCount) {
    s.ranks[r].allReduce(s.args(r, count), stream);
  }
  /// Bits of the same values, as numbers of eight bytes.
  static void greatest(Setting& s, int r, StreamRef stream) {
    void* const bits = s.values[r].data();
    s.ranks[r].allReduce({.send = bits,
                          .recv = bits,
                          .count = kCount / 2,
                          .type = DataType::Int64,
                          .op = ReduceOp::Max},
                         stream);
  }
};

// 1 + 2 + 3, thrice that, and thrice that again.
constexpr float kThrice = 6 * kRanks * kRanks;

TEST_F(GpuLaunches, OfCallsThatFollowEachOther) {
  Setting s(kRanks, kRanks, kCount);
  const auto calls = [&] {
    Group group;
    for (int call = 0; call < 3; ++call)
      for (int r = 0; r < kRanks; ++r) sum(s, r, s.streams[r]);
  };
  EXPECT_EQ(launchesOf(s, calls), kRanks);
  expect(s, kThrice);
}

// As a program has it that goes over its ranks outside.
TEST_F(GpuLaunches, OfRanksOneAfterTheOther) {
  Setting s(kRanks, 2, kCount);
  const auto calls = [&] {
    Group group;
    for (int r = 0; r < kRanks; ++r)
      for (int call = 0; call < 3; ++call) sum(s, r, s.streams[r]);
  };
  EXPECT_EQ(launchesOf(s, calls), kRanks);
  expect(s, kThrice);
}

TEST_F(GpuLaunches, OfRanksThatShareAStream) {
  Setting s(kRanks, 1, kCount);
  const auto calls = [&] {
    Group group;
    for (int r = 0; r < kRanks; ++r)
      for (int call = 0; call < 3; ++call) sum(s, r, s.streams[0]);
  };
  EXPECT_EQ(launchesOf(s, calls), 1);
  expect(s, kThrice);
}

TEST_F(GpuLaunches, OfThreads) {
  Setting s(kRanks, kRanks, kCount);
  const auto calls = [&] {
    runRanks(s.ranks, [&](const Communicator& c) {
      Group group;
      for (int call = 0; call < 3; ++call) sum(s, c.rank(), s.streams[c.rank()]);
    });
  };
  EXPECT_EQ(launchesOf(s, calls), kRanks);
  expect(s, kThrice);
}

TEST_F(GpuLaunches, WithoutStreams) {
  Setting s(kRanks, kRanks, kCount);
  const auto calls = [&] {
    runRanks(s.ranks, [&](const Communicator& c) {
      Group group;
      for (int call = 0; call < 3; ++call) sum(s, c.rank(), {});
    });
  };
  EXPECT_EQ(launchesOf(s, calls), kRanks);
  expect(s, kThrice);
}

// Those of another size of elements, and sends and receives, stay in their order.
TEST_F(GpuLaunches, OfCallsThatDiffer) {
  Setting s(kRanks, kRanks, kCount);
  const auto calls = [&] {
    Group group;
    for (int r = 0; r < kRanks; ++r) {
      sum(s, r, s.streams[r]);
      sum(s, r, s.streams[r]);
      greatest(s, r, s.streams[r]);
      sum(s, r, s.streams[r]);
    }
  };
  EXPECT_EQ(launchesOf(s, calls), 3 * kRanks);
  expect(s, kThrice);
}

TEST_F(GpuLaunches, OfAStreamEach) {
  Setting s(2, 2, kCount);
  std::vector<Stream> others;
  for (const Communicator& c : s.ranks) others.emplace_back(c.device());
  const auto calls = [&] {
    Group group;
    for (int r = 0; r < 2; ++r) {
      sum(s, r, s.streams[r]);
      sum(s, r, others[r]);
      sum(s, r, s.streams[r]);
    }
  };
  EXPECT_EQ(launchesOf(s, calls), 6);
  expect(s, 12);
}

// Sixteen are what a launch holds: of five calls of each of four ranks four, and then one.
TEST_F(GpuLaunches, OfMoreCallsThanOneHolds) {
  Setting s(4, 1, kCount);
  const auto calls = [&] {
    Group group;
    for (int r = 0; r < 4; ++r)
      for (int call = 0; call < 5; ++call) sum(s, r, s.streams[0]);
  };
  EXPECT_EQ(launchesOf(s, calls), 2);
  expect(s, 10 * 4 * 4 * 4 * 4);
}

// The order of two communicators is the same for all ranks, so nothing is joined across.
TEST_F(GpuLaunches, OfTwoCommunicators) {
  Setting s(2, 2, kCount), other(2, 2, kCount);
  const auto calls = [&] {
    Group group;
    for (int call = 0; call < 2; ++call)
      for (int r = 0; r < 2; ++r) {
        sum(s, r, s.streams[r]);
        sum(other, r, s.streams[r]);
      }
  };
  EXPECT_EQ(launchesOf(s, calls), 8);
  expect(s, 6);
  expect(other, 6);
}

TEST_F(GpuLaunches, OfAGraph) {
  Setting s(kRanks, kRanks, kCount);
  std::vector<cudaGraphExec_t> graphs(kRanks);
  const auto calls = [&] {
    for (int r = 0; r < kRanks; ++r) {
      const cudaStream_t stream = StreamRef(s.streams[r]).cuda();
      ASSERT_EQ(cudaSetDevice(s.ranks[r].device().index), cudaSuccess);
      ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
      {
        Group group;
        for (int call = 0; call < 3; ++call) sum(s, r, s.streams[r]);
      }
      cudaGraph_t graph;
      ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
      ASSERT_EQ(cudaGraphInstantiate(&graphs[r], graph, 0), cudaSuccess);
      ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
  };
  EXPECT_EQ(launchesOf(s, calls), kRanks);
  for (int replay = 0; replay < 3; ++replay) {
    for (int r = 0; r < kRanks; ++r) s.values[r].put(static_cast<float>(r + 1));
    for (int r = 0; r < kRanks; ++r)
      ASSERT_EQ(cudaGraphLaunch(graphs[r], StreamRef(s.streams[r]).cuda()), cudaSuccess);
    for (Stream& stream : s.streams) stream.synchronize();
    expect(s, kThrice);
  }
  for (const cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// The second of the three, on both sides by its number.
TEST_F(GpuLaunches, NameTheCallThatFails) {
  Setting s(2, 2, kCount);
  const auto calls = [&] {
    runRanks(s.ranks, [&](const Communicator& c) {
      const Outcome outcome = outcomeOf([&] {
        Group group;
        for (const size_t count : {kCount, c.rank() == 0 ? kCount : kCount / 2, kCount})
          sum(s, c.rank(), {}, count);
        group.end();
      });
      EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
      EXPECT_NE(outcome.text.find("operation 2"), std::string::npos) << outcome.text;
      EXPECT_NE(outcome.text.find("of 250 float32"), std::string::npos) << outcome.text;
    });
  };
  EXPECT_EQ(launchesOf(s, calls), 2);
}

}  // namespace
}  // namespace tutti::tests
