// Calls on streams that ranks share, or change: what is behind what.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/communicator/gpu/ranks.h"

namespace tutti::tests {
namespace {

class GpuSharedStreams : public CudaTest {};

constexpr size_t kCount = 5000;

void callTogether(Setting& s) {
  Group group;
  for (size_t r = 0; r < s.ranks.size(); ++r)
    s.ranks[r].allReduce(s.args(static_cast<int>(r), kCount), s.streams[0]);
}

// What they read is written when nothing keeps them from reading what was there before.
TEST_F(GpuSharedStreams, HaveCopiesBehindWhatIsBeforeThemAndBeforeWhatIsNext) {
  Setting s(3, 1, kCount, {.gpuCopies = true});
  const cudaStream_t stream = StreamRef(s.streams[0]).cuda();
  std::vector<Floats> results;
  for (int r = 0; r < 3; ++r) results.emplace_back(gpu(0), kCount, 0.0f);
  const Floats tens(gpu(0), kCount, 10.0f);
  CudaGate gate(s.streams[0]);
  const auto copy = [&](const Floats& to, const Floats& from) {
    EXPECT_EQ(cudaMemcpyAsync(to.data(), from.data(), 4 * kCount, cudaMemcpyDefault, stream),
              cudaSuccess);
  };
  for (const Floats& values : s.values) copy(values, tens);
  callTogether(s);
  for (int r = 0; r < 3; ++r) copy(results[r], s.values[r]);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  gate.open();
  s.streams[0].synchronize();
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(results[r].are(30)) << r;
}

// A capture that is not ended holds the streams of what it has captured.
TEST_F(GpuSharedStreams, HaveCopiesThatAreCapturedApartFromOthers) {
  Setting s(2, 1, kCount, {.gpuCopies = true});
  const cudaStream_t stream = StreamRef(s.streams[0]).cuda();
  callTogether(s);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  callTogether(s);
  {
    Group group;
    for (int r = 0; r < 2; ++r) s.ranks[r].barrier(s.streams[1]);
  }
  s.streams[1].synchronize();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (const float sum : {6, 12, 24}) {
    ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    s.streams[0].synchronize();
    for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(sum)) << r << " " << sum;
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

// Each stream has the first call of one rank and the second one of the other, in this order, though
// the first rank's are named first.
TEST_F(GpuSharedStreams, OfAGroupHaveEveryRanksFirstCallBeforeAnySecondOne) {
  for (const bool byCopies : {false, true}) {
    Setting s(2, 1, kCount, {.gpuCopies = byCopies});
    {
      Group group;
      for (int r = 0; r < 2; ++r)
        for (int call = 0; call < 2; ++call)
          s.ranks[r].allReduce(s.args(r, kCount), s.streams[(r + call) % 2]);
    }
    for (Stream& stream : s.streams) stream.synchronize();
    for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(6)) << r;
  }
}

/// Two calls of a rank in one graph, on streams that nothing else orders.
cudaGraphExec_t captureOnTwoStreams(Setting& s, int rank, const Stream& second) {
  const cudaStream_t one = StreamRef(s.streams[rank]).cuda(), other = StreamRef(second).cuda();
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaSetDevice(s.ranks[rank].device().index), cudaSuccess);
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, one), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
  s.ranks[rank].allReduce(s.args(rank, kCount), s.streams[rank]);
  s.ranks[rank].allReduce(s.args(rank, kCount), second);
  EXPECT_EQ(cudaEventRecord(event, other), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(one, event, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(one, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  return exec;
}

// A rank has one call at a time.
TEST_F(GpuSharedStreams, OfOneCaptureAreInTheOrderOfTheCalls) {
  for (const bool byCopies : {false, true}) {
    Setting s(2, 2, kCount, {.gpuCopies = byCopies});
    std::vector<Stream> others;
    std::vector<cudaGraphExec_t> graphs;
    for (int r = 0; r < 2; ++r) others.emplace_back(s.ranks[r].device());
    for (int r = 0; r < 2; ++r) graphs.push_back(captureOnTwoStreams(s, r, others[r]));
    for (const float before : {3, 12, 48, 192}) {
      for (int r = 0; r < 2; ++r)
        ASSERT_EQ(cudaGraphLaunch(graphs[r], StreamRef(s.streams[r]).cuda()), cudaSuccess);
      for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
      for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(2 * before)) << r << " " << before;
      for (int r = 0; r < 2; ++r) ASSERT_FALSE(s.ranks[r].asyncError()) << r;
    }
    for (const cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  }
}

// A thread's stream lies where that of a thread that has ended was, and is another one.
TEST_F(GpuSharedStreams, OfThreadsThatComeAndGoAreTheirOwn) {
  Setting s(2, 1, kCount);
  for (int r = 0; r < 2; ++r)
    std::thread([&, r] {
      EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
      const Outcome outcome = outcomeOf(
          [&] { s.ranks[r].allReduce(s.args(r, kCount), StreamRef::cuda(cudaStreamPerThread)); });
      EXPECT_EQ(outcome.text, "no error") << r;
    }).join();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(3)) << r;
}

// A group is on all streams that its calls name: they are behind what is there, whichever they
// name.
TEST_F(GpuSharedStreams, OfAGroupAreAllBehindAndBeforeItsCalls) {
  for (const bool byCopies : {false, true}) {
    Setting s(2, 2, kCount, {.gpuCopies = byCopies});
    std::vector<Stream> others;
    std::vector<Floats> second, result;
    for (int r = 0; r < 2; ++r) {
      others.emplace_back(s.ranks[r].device());
      second.emplace_back(s.ranks[r].device(), kCount, 0.0f);
      result.emplace_back(s.ranks[r].device(), kCount, 0.0f);
    }
    const auto copy = [](const Floats& to, const Floats& from, const Stream& stream) {
      EXPECT_EQ(cudaMemcpyAsync(to.data(), from.data(), 4 * kCount, cudaMemcpyDefault,
                                StreamRef(stream).cuda()),
                cudaSuccess);
    };
    // What is late on the one stream is read by the call on the other one.
    const auto call = [&](int r, const Stream& one, const Stream& another) {
      AllReduceArgs args = s.args(r, kCount);
      args.send = args.recv = second[r].data();
      Group group;
      s.ranks[r].allReduce(args, one);
      s.ranks[r].allReduce(s.args(r, kCount), another);
    };
    CudaGate before(s.streams[0]);
    for (int r = 0; r < 2; ++r) {
      copy(second[r], s.values[r], s.streams[r]);
      call(r, others[r], s.streams[r]);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    before.open();
    for (int r = 0; r < 2; ++r) {
      s.streams[r].synchronize();
      others[r].synchronize();
      EXPECT_TRUE(second[r].are(3)) << r;
    }
    // And what comes behind on the one waits for the call on the other one, which is late.
    CudaGate behind(others[1]);
    for (int r = 0; r < 2; ++r) {
      call(r, others[r], s.streams[r]);
      copy(result[r], second[r], s.streams[r]);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    behind.open();
    for (int r = 0; r < 2; ++r) {
      s.streams[r].synchronize();
      EXPECT_TRUE(result[r].are(6)) << r;
    }
  }
}

/// A message each way in one group, which a rank sends on its own stream and receives on another:
/// behind what is on both, and before what comes next there.
class OnTwoStreams {
 public:
  OnTwoStreams(Setting& s, int rank)
      : s_(s),
        rank_(rank),
        other_(s.ranks[rank].device()),
        received_(s.ranks[rank].device(), kCount, 0.0f),
        result_(s.ranks[rank].device(), kCount, 0.0f),
        zeros_(s.ranks[rank].device(), kCount, 0.0f),
        ones_(s.ranks[rank].device(), kCount, static_cast<float>(rank + 7)) {}
  void enqueue() {
    copy(s_.values[rank_], ones_, sending());
    copy(received_, zeros_, receiving());
    {
      Group group;
      s_.ranks[rank_].send({s_.values[rank_].data(), kCount, DataType::Float32, 1 - rank_},
                           s_.streams[rank_]);
      s_.ranks[rank_].receive({received_.data(), kCount, DataType::Float32, 1 - rank_}, other_);
    }
    copy(s_.values[rank_], zeros_, sending());
    copy(result_, received_, receiving());
  }
  void expectReceived() {
    other_.synchronize();
    s_.streams[rank_].synchronize();
    EXPECT_TRUE(result_.are(static_cast<float>(1 - rank_ + 7))) << rank_;
    EXPECT_FALSE(s_.ranks[rank_].asyncError()) << rank_;
  }
  cudaStream_t sending() const { return StreamRef(s_.streams[rank_]).cuda(); }
  cudaStream_t receiving() const { return StreamRef(other_).cuda(); }
  const Stream& other() const { return other_; }

 private:
  static void copy(const Floats& to, const Floats& from, cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpyAsync(to.data(), from.data(), 4 * kCount, cudaMemcpyDefault, stream),
              cudaSuccess);
  }
  Setting& s_;
  const int rank_;
  Stream other_;
  Floats received_, result_, zeros_, ones_;
};

TEST_F(GpuSharedStreams, OfAGroupsSendsAndReceivesMayBeSeveral) {
  for (const bool byCopies : {false, true}) {
    Setting s(2, 2, kCount, {.gpuCopies = byCopies});
    std::vector<std::unique_ptr<OnTwoStreams>> messages;
    for (int r = 0; r < 2; ++r) messages.push_back(std::make_unique<OnTwoStreams>(s, r));
    CudaGate gate(s.streams[0]), behind(messages[1]->other());
    for (const auto& each : messages) each->enqueue();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.open();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    behind.open();
    for (const auto& each : messages) each->expectReceived();
  }
}

// In one graph, but not one of them alone.
TEST_F(GpuSharedStreams, OfAGroupsSendsAndReceivesAreCapturedTogether) {
  for (const bool byCopies : {false, true}) {
    Setting s(2, 2, kCount, {.gpuCopies = byCopies});
    std::vector<std::unique_ptr<OnTwoStreams>> messages;
    std::vector<cudaGraphExec_t> graphs;
    for (int r = 0; r < 2; ++r) {
      const auto& own = messages.emplace_back(std::make_unique<OnTwoStreams>(s, r));
      cudaEvent_t event = nullptr;
      ASSERT_EQ(cudaSetDevice(s.ranks[r].device().index), cudaSuccess);
      ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
      const auto follow = [&](cudaStream_t stream, cudaStream_t before) {
        EXPECT_EQ(cudaEventRecord(event, before), cudaSuccess);
        EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
      };
      graphs.push_back(capture(s.ranks[r], own->sending(), [&] {
        follow(own->receiving(), own->sending());
        own->enqueue();
        follow(own->sending(), own->receiving());
      }));
      EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    }
    for (int r = 0; r < 2; ++r)
      EXPECT_EQ(cudaGraphLaunch(graphs[r], messages[r]->sending()), cudaSuccess);
    for (const auto& each : messages) each->expectReceived();
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaSetDevice(s.ranks[0].device().index), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(messages[0]->sending(), cudaStreamCaptureModeRelaxed),
              cudaSuccess);
    const Outcome outcome = outcomeOf([&] { messages[0]->enqueue(); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidUsage) << outcome.text;
    EXPECT_NE(outcome.text.find("one is captured, and another one not"), std::string::npos)
        << outcome.text;
    EXPECT_EQ(cudaStreamEndCapture(messages[0]->sending(), &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (const cudaGraphExec_t exec : graphs) EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  }
}

// Ranks of one device that name the same streams in another order, or some of them, share a launch.
TEST_F(GpuSharedStreams, OfAGroupsSendsAndReceivesMayBeOtherRanks) {
  for (const bool byCopies : {false, true}) {
    Setting s(3, 1, kCount, {.gpuCopies = byCopies});
    std::vector<Floats> received;
    for (int r = 0; r < 3; ++r) received.emplace_back(gpu(0), kCount, 0.0f);
    {
      Group group;
      for (int r = 0; r < 3; ++r) {
        s.ranks[r].send({s.values[r].data(), kCount, DataType::Float32, (r + 1) % 3}, s.streams[r]);
        s.ranks[r].receive({received[r].data(), kCount, DataType::Float32, (r + 2) % 3},
                           s.streams[(r + 1) % 3]);
      }
    }
    for (int r = 0; r < 3; ++r) {
      s.streams[(r + 1) % 3].synchronize();
      EXPECT_TRUE(received[r].are(static_cast<float>((r + 2) % 3 + 1))) << r;
      EXPECT_FALSE(s.ranks[r].asyncError()) << r;
    }
  }
}

// Each rank's message waits for the other's, which is behind it on the stream where it is received.
TEST_F(GpuSharedStreams, OfOtherRanksAreRefusedAmongSeveral) {
  Setting s(2, 1, kCount, {.timeout = std::chrono::seconds(10)});
  const auto messages = [&](int r) {
    Group group;
    s.ranks[r].send({s.values[r].data(), kCount / 2, DataType::Float32, 1 - r}, s.streams[r]);
    s.ranks[r].receive({s.values[r].data() + kCount / 2, kCount / 2, DataType::Float32, 1 - r},
                       s.streams[1 - r]);
    group.end();
  };
  messages(0);
  const Outcome outcome = outcomeOf([&] { messages(1); });
  EXPECT_EQ(outcome.code, ErrorCode::InvalidUsage) << outcome.text;
  EXPECT_NE(outcome.text.find("on one stream, one after the other"), std::string::npos)
      << outcome.text;
}

}  // namespace
}  // namespace tutti::tests
