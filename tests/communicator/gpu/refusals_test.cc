// Calls on emulated GPUs of which CUDA refuses a part: all ranks of the communicator fail, those of
// the launch with CUDA's error, and no stream waits for what does not come.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/communicator/gpu/ranks.h"
#include "tests/emulation/runtime/failing_call.h"
#include "tests/support/sanitized.h"

// What a rank copies after it has failed goes to slots that its peers may read at that moment: see
// tests/executor/copy/faults_test.cc.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:foldPiece\nrace:copyRows\n"; }

namespace tutti::tests {
namespace {

class GpuRefusals : public CudaTest, public testing::WithParamInterface<bool> {};

constexpr size_t kCount = 5000;

Outcome failureOf(Communicator& c) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!c.asyncError() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return outcomeOf([&] { c.barrier(); });
}

// Two of three ranks share a stream, and a launch, of which a part is enqueued. The third waits for
// both.
TEST_P(GpuRefusals, OfALaunchOfSeveralRanksFailThemAll) {
  int failures = 0;
  for (int calls = 0;; calls += kThreadSanitized ? 11 : GetParam() ? 3 : 1) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    CommunicatorOptions options{.timeout = std::chrono::seconds(60), .gpuCopies = GetParam()};
    options.devices = {gpu(1), gpu(1), gpu(2)};
    Setting s(Communicator::createLocal(3, options), kCount);
    s.ranks[2].allReduce(s.args(2, kCount), s.streams[2]);
    Outcome outcome;
    bool hasFailed = false;
    {
      Group group;
      for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[0]);
      const emulation::FailingCall failing(calls, cudaErrorUnknown);
      outcome = outcomeOf([&] { group.end(); });
      hasFailed = failing.hasFailed();
    }
    for (const int r : {0, 2}) s.streams[r].synchronize();
    if (!hasFailed) {
      EXPECT_EQ(outcome.text, "no error");
      for (int r = 0; r < 3; ++r) EXPECT_TRUE(s.values[r].are(6)) << r;
      break;
    }
    ++failures;
    expectError(outcome, ErrorCode::Cuda, "cudaErrorUnknown");
    for (Communicator& rank : s.ranks) {
      const Outcome known = failureOf(rank);
      expectError(known, ErrorCode::Cuda, "cudaErrorUnknown");
      if (rank.rank() == 2) expectError(known, ErrorCode::Cuda, "reported by rank");
    }
  }
  EXPECT_GT(failures, kThreadSanitized ? 0 : GetParam() ? 10 : 4);
}

// All calls of CUDA up to the first by which it waits. By copies the rank has streams of its own,
// whose lanes copy when they are opened.
TEST_P(GpuRefusals, OfACallThatIsWaitedForAreToldWhenNothingTouchesItsBuffer) {
  int calls = 0;
  for (;; calls += !GetParam() ? 1 : kThreadSanitized ? 11 : 3) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    CommunicatorOptions options{
        .timeout = std::chrono::seconds(60), .algorithm = "double_tree", .gpuCopies = GetParam()};
    // What isOrderedByItsDataAlone() of the executor's tests is about.
    if (kThreadSanitized && !GetParam()) options.algorithm = "ring";
    options.devices = {gpu(1), gpu(2)};
    Setting s(Communicator::createLocal(2, options), kCount);
    const auto call = [&](int r) { s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]); };
    for (int r = 0; r < 2; ++r) call(r);  // plans are made, which is no part of the next launch
    for (Stream& stream : s.streams) stream.synchronize();
    call(1);
    Outcome outcome;
    {
      const emulation::FailingCall failing(calls, cudaErrorUnknown);
      outcome = outcomeOf([&] { s.ranks[0].allReduce(s.args(0, kCount)); });
      if (!failing.hasFailed()) break;
    }
    if (outcome.text.find("cudaEventQuery") != std::string::npos) break;  // it has been launched
    s.values[0].put(7);
    expectError(outcome, ErrorCode::Cuda, "cudaErrorUnknown");
    s.ranks.clear();
    EXPECT_TRUE(s.values[0].are(7));
  }
  EXPECT_GT(calls, GetParam() ? 20 : 2);
}

// Sends and receives, whose launch has a table that the graph keeps. A graph of them that the
// program got nevertheless ends when it is launched.
TEST_P(GpuRefusals, OfACaptureFailAllRanks) {
  int failures = 0;
  for (int calls = 0;; calls += GetParam() ? 3 : 1) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    CommunicatorOptions options{.timeout = std::chrono::seconds(60), .gpuCopies = GetParam()};
    options.devices = {gpu(1), gpu(2)};
    Setting s(Communicator::createLocal(2, options), kCount);
    const cudaStream_t stream = StreamRef(s.streams[0]).cuda();
    ASSERT_EQ(cudaSetDevice(s.ranks[0].device().index), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    Outcome outcome;
    bool hasFailed = false;
    {
      Group group;
      s.ranks[0].send({s.values[0].data(), kCount / 2, DataType::Float32, 1}, s.streams[0]);
      s.ranks[0].receive({s.values[0].data() + kCount / 2, kCount / 2, DataType::Float32, 1},
                         s.streams[0]);
      const emulation::FailingCall failing(calls, cudaErrorUnknown);
      outcome = outcomeOf([&] { group.end(); });
      hasFailed = failing.hasFailed();
    }
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream, &graph);
    if (!hasFailed) {
      EXPECT_EQ(outcome.text, "no error");
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
      break;
    }
    ++failures;
    expectError(outcome, ErrorCode::Cuda, "cudaErrorUnknown");
    for (Communicator& rank : s.ranks)
      expectError(failureOf(rank), ErrorCode::Cuda, "cudaErrorUnknown");
    cudaGraphExec_t exec = nullptr;
    if (graph == nullptr || cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess) continue;
    EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    s.streams[0].synchronize();
    EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  EXPECT_GT(failures, 4);
}

INSTANTIATE_TEST_SUITE_P(Executors, GpuRefusals, testing::Bool(), [](const auto& byCopies) {
  return byCopies.param ? "ByCopies" : "ByKernels";
});

// The one that has given up is no part of the others' launch, which is not made.
TEST_F(CudaTest, ALaunchWithARankThatHasFailedFailsTheOthersAtOnce) {
  for (const bool byCopies : {false, true}) {
    CommunicatorOptions options{.timeout = std::chrono::seconds(60), .gpuCopies = byCopies};
    options.devices = {gpu(1), gpu(1)};
    Setting s(Communicator::createLocal(2, options), kCount);
    Group group;
    for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[0]);
    s.ranks[1].abort();
    expectError(outcomeOf([&] { group.end(); }), ErrorCode::Aborted, "rank 1");
    s.streams[0].synchronize();
    expectError(failureOf(s.ranks[0]), ErrorCode::Aborted, "rank 1");
    EXPECT_TRUE(s.values[0].are(1) && s.values[1].are(2)) << "something was launched";
  }
}

}  // namespace
}  // namespace tutti::tests
