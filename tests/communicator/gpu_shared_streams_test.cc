// Calls on streams that ranks share, or change: what is behind what.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/communicator/gpu_ranks.h"

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

}  // namespace
}  // namespace tutti::tests
