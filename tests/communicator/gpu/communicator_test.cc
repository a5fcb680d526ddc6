// Collectives of communicators on emulated GPUs: all of them by all plans, on streams, in groups
// and graphs.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include "src/base/check.h"
#include "src/communicator/inspection.h"
#include "tests/communicator/gpu/calls.h"
#include "tests/support/collective_checks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

struct Shape {
  int ranks, devices;
};

class GpuCollectives : public CudaTest, public testing::WithParamInterface<Shape> {};

// ThreadSanitizer keeps a megabyte of each CUDA thread that there was.
const std::vector<size_t> kCounts =
    kSanitized ? std::vector<size_t>{0, 1000, 20011} : std::vector<size_t>{0, 1, 1000, 30011};
const std::vector<Shape> kShapes =
    kSanitized ? std::vector<Shape>{{1, 1}, {2, 1}, {3, 2}}
               : std::vector<Shape>{{1, 1}, {2, 1}, {2, 2}, {3, 2}, {4, 4}, {5, 4}};

TEST_P(GpuCollectives, AllGiveWhatIsKnown) {
  auto ranks = makeRanks(GetParam().ranks, GetParam().devices);
  runRanks(ranks, [](Communicator& c) {
    Windows windows(c, 2 << 20);
    for (const size_t count : kCounts)
      for (const bool inPlace : {false, true})
        checkAll(c, {.count = count,
                     .root = static_cast<int>(count) % c.size(),
                     .inPlace = inPlace,
                     .misalign = count == 1000 ? 4u : 0u,
                     .windows = &windows});
    c.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuCollectives, testing::ValuesIn(kShapes), [](const auto& shape) {
  return std::to_string(shape.param.ranks) + "RanksOn" + std::to_string(shape.param.devices);
});

TEST_F(GpuCalls, TypesAndReductions) {
  auto ranks = makeRanks(3, 3);
  runRanks(ranks, [](Communicator& c) {
    Windows windows(c, 1 << 20);
    for (int type = 0; type < kDataTypeCount; ++type)
      for (int op = 0; op < kReduceOpCount; ++op)
        if (isDefined(static_cast<ReduceOp>(op), static_cast<DataType>(type)))
          checkAllReduce(c, {.type = static_cast<DataType>(type),
                             .op = static_cast<ReduceOp>(op),
                             .count = 777,
                             .windows = &windows});
  });
}

TEST_F(GpuCalls, OneThreadCallsForAllRanksOnTheirStreams) {
  Setting s(4, 2, kCount);
  for (int r = 0; r < 4; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
  for (int r = 0; r < 4; ++r) s.streams[r].synchronize();
  for (int r = 0; r < 4; ++r) EXPECT_TRUE(s.values[r].are(10)) << r;
}

TEST_F(GpuCalls, WaitForWhatIsBeforeThemOnTheStream) {
  Setting s(2, 2, kCount);
  CudaGate gate(s.streams[1]);
  for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
  EXPECT_FALSE(s.streams[0].query()) << "rank 1 is behind a gate";
  gate.open();
  for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(3)) << r;
}

TEST_F(GpuCalls, OnChangingStreamsRunInTheirOrder) {
  Setting s(2, 2, kCount);
  Stream others[] = {Stream(s.ranks[0].device()), Stream(s.ranks[1].device())};
  for (int turn = 0; turn < 6; ++turn)
    for (int r = 0; r < 2; ++r)
      s.ranks[r].allReduce(s.args(r, kCount),
                           turn % 2 == 0 ? StreamRef(s.streams[r]) : StreamRef(others[r]));
  for (int r = 0; r < 2; ++r) {
    s.streams[r].synchronize();
    others[r].synchronize();
  }
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(96)) << r;  // 3, then doubled five times
}

TEST_F(GpuCalls, InAGroupWithoutStreamsRunTogether) {
  Setting s(4, 2, kCount);
  Group group;
  for (int turn = 0; turn < 2; ++turn)
    for (int r = 0; r < 4; ++r) s.ranks[r].allReduce(s.args(r, kCount));
  group.end();
  for (int r = 0; r < 4; ++r) EXPECT_TRUE(s.values[r].are(40)) << r;
}

TEST_F(GpuCalls, OfRanksThatShareAStreamShareALaunch) {
  Setting s(3, 1, kCount);
  {
    Group group;
    for (int r = 0; r < 3; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[0]);
  }
  s.streams[0].synchronize();
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(s.values[r].are(6)) << r;
}

TEST_F(GpuCalls, OfRanksThatShareAStreamOutsideAGroupAreRefused) {
  Setting s(2, 1, kCount);
  s.ranks[0].allReduce(s.args(0, kCount), s.streams[0]);
  expectError(outcomeOf([&] { s.ranks[1].allReduce(s.args(1, kCount), s.streams[0]); }),
              ErrorCode::InvalidUsage, "their calls have to be in one group");
  s.streams[0].synchronize();
  expectError(outcomeOf([&] { s.ranks[0].allReduce(s.args(0, kCount), s.streams[0]); }),
              ErrorCode::InvalidUsage, "their calls have to be in one group");
}

/// What rank 1 hears who receives from rank 0, or sends to it, on the stream of rank 0's part.
Outcome otherEndOnOneStream(Setting& s, bool isReceived) {
  const auto send = [&](int r) {
    s.ranks[r].send({s.values[r].data(), kCount, DataType::Float32, 1 - r}, s.streams[0]);
  };
  const auto receive = [&](int r) {
    s.ranks[r].receive({s.values[r].data(), kCount, DataType::Float32, 1 - r}, s.streams[0]);
  };
  isReceived ? send(0) : receive(0);
  return outcomeOf([&] { isReceived ? receive(1) : send(1); });
}

TEST_F(GpuCalls, SendsAndReceivesOnOneStreamOutsideAGroupAreRefused) {
  for (const bool byCopies : {false, true})
    for (const bool isReceived : {false, true}) {
      Setting s(2, 1, kCount, {.gpuCopies = byCopies});
      const Outcome outcome = otherEndOnOneStream(s, isReceived);
      expectError(outcome, ErrorCode::InvalidUsage,
                  isReceived ? "call 0 sends of 0 bytes and 1 receive of 20000 bytes"
                             : "call 1 send of 20000 bytes");
      expectError(outcome, ErrorCode::InvalidUsage, "their calls have to be in one group");
      s.streams[0].synchronize();
    }
}

// A graph is not behind what else was captured on its stream.
TEST_F(GpuCalls, OfCapturesThatAreReplayedApartMayShareAStream) {
  Setting s(2, 1, kCount);
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<cudaGraphExec_t> graphs(2);
    for (int r = 0; r < 2; ++r) {
      const cudaStream_t stream = StreamRef(s.streams[0]).cuda();
      ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
      s.ranks[r].allReduce(s.args(r, kCount), s.streams[0]);
      cudaGraph_t graph = nullptr;
      ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
      ASSERT_EQ(cudaGraphInstantiate(&graphs[r], graph, 0), cudaSuccess);
      ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
    for (int r = 0; r < 2; ++r)
      ASSERT_EQ(cudaGraphLaunch(graphs[r], StreamRef(s.streams[r]).cuda()), cudaSuccess);
    for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
    for (const cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  }
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(12)) << r;  // 3, and doubled twice
}

// The second message of one is in the launch of the first of the other.
TEST_F(GpuCalls, SendsThatARankIsAheadOfOnOneStreamAreRefused) {
  Setting s(2, 1, kCount);
  const auto send = [&] {
    s.ranks[0].send({s.values[0].data(), kCount, DataType::Float32, 1}, s.streams[0]);
  };
  send();
  expectError(
      outcomeOf([&] {
        Group group;
        send();
        s.ranks[1].receive({s.values[1].data(), kCount, DataType::Float32, 0}, s.streams[0]);
        group.end();
      }),
      ErrorCode::InvalidUsage, "their calls have to be in one group");
  s.streams[0].synchronize();
}

// Both ends of each message are in one group, and nobody waits for what is behind him: message by
// message on one stream, then on the other one.
TEST_F(GpuCalls, SendsAndReceivesInGroupsShareStreams) {
  for (const bool byCopies : {false, true}) {
    Setting s(3, 1, kCount, {.gpuCopies = byCopies});
    for (const int stream : {0, 0, 1, 0}) {
      for (int r = 0; r < 3; ++r) s.values[r].put(static_cast<float>(r + 1));
      Group group;
      s.ranks[0].send({s.values[0].data(), kCount, DataType::Float32, 1}, s.streams[stream]);
      s.ranks[1].receive({s.values[1].data(), kCount, DataType::Float32, 0}, s.streams[stream]);
      group.end();
      Group next;
      s.ranks[1].send({s.values[1].data(), kCount, DataType::Float32, 2}, s.streams[stream]);
      s.ranks[2].receive({s.values[2].data(), kCount, DataType::Float32, 1}, s.streams[stream]);
      next.end();
      s.streams[stream].synchronize();
      for (int r = 0; r < 3; ++r) EXPECT_TRUE(s.values[r].are(1)) << r << " " << stream;
    }
  }
}

// They wait for nobody on the stream.
TEST_F(GpuCalls, SendsToRanksOnOtherStreamsMayShareOne) {
  Setting s(4, 1, kCount);
  const auto receive = [&](int r, int from) {
    s.ranks[r].receive({s.values[r].data(), kCount, DataType::Float32, from}, s.streams[r]);
  };
  for (const int r : {0, 1})
    s.ranks[r].send({s.values[r].data(), kCount, DataType::Float32, r + 2}, s.streams[0]);
  receive(2, 0);
  receive(3, 1);
  for (Stream& stream : s.streams) stream.synchronize();
  for (int r = 0; r < 4; ++r) EXPECT_TRUE(s.values[r].are(static_cast<float>(r % 2 + 1))) << r;
}

TEST_F(GpuCalls, ThatARankIsAheadOfOnOneStreamAreRefused) {
  Setting s(2, 1, kCount);
  s.ranks[0].allReduce(s.args(0, kCount), s.streams[0]);
  expectError(outcomeOf([&] {
                Group group;
                for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[0]);
                group.end();
              }),
              ErrorCode::InvalidUsage, "their calls have to be in one group");
  s.streams[0].synchronize();
}

TEST_F(GpuCalls, OnTheDefaultStreamsOfThreadsAreApart) {
  Setting s(2, 1, kCount);
  runRanks(s.ranks, [&](Communicator& c) {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    for (int turn = 0; turn < 2; ++turn)
      c.allReduce(s.args(c.rank(), kCount), StreamRef::cuda(cudaStreamPerThread));
    ASSERT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  });
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(6)) << r;
}

TEST_F(GpuCalls, BesideThoseOfTheHostInOneGroup) {
  Setting s(2, 2, kCount);
  std::vector<float> host(2, 1);
  Group group;
  for (int r = 0; r < 2; ++r) {
    s.ranks[r].allReduce(
        {.send = &host[r], .recv = &host[r], .count = 1, .type = DataType::Float32});
    s.ranks[r].allReduce(s.args(r, kCount));
  }
  group.end();
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(s.values[r].are(3)) << r;
    EXPECT_EQ(host[r], 2);
  }
}

TEST_F(GpuCalls, AreCapturedAndReplayed) {
  Setting s(2, 2, kCount);
  checkReplays(s, kCount, 2, 10);
}

TEST_F(GpuCalls, SendAndReceiveInARingAndToThemselves) {
  constexpr size_t kLarge = 300'000;  // many slots
  Setting s(3, 2, kLarge);
  std::vector<Floats> received, own;
  for (int r = 0; r < 3; ++r) {
    received.emplace_back(s.ranks[r].device(), kLarge, 0.0f);
    own.emplace_back(s.ranks[r].device(), 1, 0.0f);
  }
  for (int turn = 0; turn < 2; ++turn) {
    Group group;
    for (int r = 0; r < 3; ++r) {
      const auto send = [&](size_t count, int peer) {
        s.ranks[r].send({s.values[r].data(), count, DataType::Float32, peer}, s.streams[r]);
      };
      const auto receive = [&](const Floats& into, size_t count, int peer) {
        s.ranks[r].receive({into.data(), count, DataType::Float32, peer}, s.streams[r]);
      };
      send(kLarge, (r + 1) % 3);
      receive(received[r], kLarge, (r + 2) % 3);
      send(1, r);
      receive(own[r], 1, r);
      send(0, (r + 1) % 3);
      receive(own[r], 0, (r + 2) % 3);
    }
  }
  for (int r = 0; r < 3; ++r) {
    s.streams[r].synchronize();
    EXPECT_TRUE(received[r].are(static_cast<float>((r + 2) % 3 + 1))) << r;
    EXPECT_TRUE(own[r].are(static_cast<float>(r + 1))) << r;
  }
}

TEST_F(GpuCalls, OfBlocksThatDiffer) {
  constexpr int kRanks = 3;
  Setting s(kRanks, 3, kCount);
  const std::vector<size_t> counts = {5, 0, 1000};
  std::vector<Floats> out;
  for (int r = 0; r < kRanks; ++r) out.emplace_back(s.ranks[r].device(), 1005, 0.0f);
  runRanks(s.ranks, [&](Communicator& c) {
    const int r = c.rank();
    c.allGatherV({.send = s.values[r].data(),
                  .recv = out[r].data(),
                  .counts = counts,
                  .type = DataType::Float32});
    std::vector<float> all(1005);
    device::copyMemory(all.data(), out[r].data(), 4 * all.size());
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i < 5 ? 1.0f : 3.0f) << i;
    c.reduceScatterV({.send = out[r].data(),
                      .recv = s.values[r].data(),
                      .counts = counts,
                      .type = DataType::Float32});
    std::vector<float> mine(counts[r]);
    if (!mine.empty()) device::copyMemory(mine.data(), s.values[r].data(), 4 * mine.size());
    for (const float x : mine) ASSERT_EQ(x, r == 0 ? 3.0f : 9.0f);
    // Rank r gives its first elements to rank 0, the next two to rank 1, and three to rank 2.
    const std::vector<size_t> to = {1, 2, 3}, from(kRanks, static_cast<size_t>(r) + 1);
    c.allToAllV({.send = out[r].data(),
                 .sendCounts = to,
                 .recv = s.values[r].data(),
                 .recvCounts = from,
                 .type = DataType::Float32});
    std::vector<float> got(3 * from[0]);
    device::copyMemory(got.data(), s.values[r].data(), 4 * got.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], r == 2 && i % 3 == 2 ? 3.0f : 1.0f) << i;
  });
}

TEST_F(GpuCalls, OfSplitsAndSubsetsWork) {
  auto ranks = makeRanks(4, 4);
  runRanks(ranks, [](Communicator& c) {
    auto half = c.split(c.rank() % 2, c.rank());
    Windows windows(*half, 1 << 16);
    checkAllReduce(*half, {.count = 100, .windows = &windows});
    checkAllGather(c, {.count = 10, .windows = &windows});
  });
}

}  // namespace
}  // namespace tutti::tests
