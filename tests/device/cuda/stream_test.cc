// Streams and events of GPUs: order, waits, failures, default streams and those of others, and what
// is refused while a stream is being captured.

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tutti/cuda/launch.h>
#include <tutti/log.h>

#include "tests/device/cuda_test.h"
#include "tests/emulation/runtime_device.cuh"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

class CudaStreams : public CudaTest {};
class CudaEvents : public CudaTest {};
class CudaCapture : public CudaTest {};

TEST_F(CudaStreams, RunHostFunctionsInOrderBetweenKernels) {
  for (int device = 0; device < devices(); ++device) {
    Stream stream(gpu(device));
    Memory memory = allocatePinned(sizeof(int));
    int* const value = memory.as<int>();
    *value = 1;
    std::vector<int> seen;
    const StreamRef ref = stream;
    EXPECT_EQ(ref.device(), gpu(device));
    ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(cuda::launch(emulation::doubleAndAdd, {.stream = ref.cuda()}, value, 1, 1),
                cudaSuccess);
      stream.enqueue([&seen, value] { seen.push_back(*value); });
    }
    stream.synchronize();
    EXPECT_EQ(seen, (std::vector{3, 7, 15}));
    EXPECT_TRUE(stream.query());
  }
}

TEST_F(CudaStreams, AreNotDoneBeforeTheirWork) {
  Stream stream(someGpu(1));
  CudaGate gate(stream);
  EXPECT_FALSE(stream.query());
  EXPECT_FALSE(stream.query()) << "asked twice";
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(stream.query());
}

// Else one stream of a program that spins would stop all others, and deadlock with them.
TEST_F(CudaStreams, DoNotWaitForTheLegacyStreamNorItForThem) {
  Stream stream(gpu(0));
  CudaGate gate(stream);
  const StreamRef legacy = StreamRef::cuda(nullptr);
  EXPECT_TRUE(legacy.isCuda());
  EXPECT_TRUE(legacy) << "null is a stream of CUDA";
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess) << "hangs when it waits for the gate";
  gate.open();
  stream.synchronize();
}

TEST_F(CudaStreams, ThrowWhatTheirFunctionsHaveThrownOnce) {
  Stream stream(someGpu(2));
  stream.enqueue([] { throw std::runtime_error("first"); });
  stream.enqueue([] { throw std::runtime_error("second"); });
  try {
    stream.synchronize();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "first");
  }
  stream.synchronize();
  EXPECT_TRUE(stream.query());
}

TEST_F(CudaStreams, LogAFailureNobodySawAndWaitAtTheirEnd) {
  std::string logged;
  setLogSink([&](LogLevel, std::string_view text) { logged += text; });
  std::atomic<bool> ran{false};
  {
    Stream stream(gpu(0));
    CudaGate gate(stream);
    stream.enqueue([&] {
      ran = true;
      throw std::runtime_error("unseen");
    });
    gate.open();
  }
  EXPECT_TRUE(ran);
  setLogSink(nullptr);
  EXPECT_NE(logged.find("unseen"), std::string::npos) << logged;
}

TEST_F(CudaStreams, MoveAndTheOneReplacedWaits) {
  std::atomic<int> ran{0};
  Stream stream(gpu(0));
  stream.enqueue([&] { ++ran; });
  stream = Stream(someGpu(1));
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(StreamRef(stream).device(), someGpu(1));
  Stream moved = std::move(stream);
  EXPECT_FALSE(StreamRef(stream));
  EXPECT_EQ(StreamRef(moved).device(), someGpu(1));
}

TEST_F(CudaStreams, OfOthersAreBorrowedWithTheirDevice) {
  ASSERT_EQ(cudaSetDevice(someGpu(3).index), cudaSuccess);
  cudaStream_t theirs = nullptr;
  ASSERT_EQ(cudaStreamCreate(&theirs), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(someGpu(2).index), cudaSuccess);
  EXPECT_EQ(StreamRef::cuda(theirs).device(), someGpu(3));
  EXPECT_EQ(StreamRef::cuda(theirs).cuda(), theirs);
  for (cudaStream_t own : {cudaStream_t(nullptr), cudaStreamLegacy, cudaStreamPerThread}) {
    EXPECT_EQ(StreamRef::cuda(own).device(), someGpu(2));
    EXPECT_EQ(StreamRef::cuda(own).cuda(), own);
  }
  Event event(someGpu(3));
  event.record(StreamRef::cuda(theirs));
  event.synchronize();
  EXPECT_EQ(cudaStreamDestroy(theirs), cudaSuccess);
}

TEST_F(CudaStreams, OfAnyThreadTakeWorkFromAllThreads) {
  Stream stream(someGpu(1));
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) stream.enqueue([&] { ++ran; });
      stream.synchronize();
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ran, 200);
}

TEST_F(CudaEvents, OrderStreamsOfDifferentDevices) {
  Stream first(gpu(0)), second(someGpu(3));
  Event event(gpu(0));
  std::atomic<int> order{0}, firstAt{0}, secondAt{0};
  CudaGate gate(first);
  first.enqueue([&] { firstAt = ++order; });
  event.record(first);
  event.wait(second);
  second.enqueue([&] { secondAt = ++order; });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(order, 0);
  EXPECT_FALSE(event.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
  second.synchronize();
  EXPECT_EQ(firstAt, 1);
  EXPECT_EQ(secondAt, 2);
}

TEST_F(CudaEvents, NeverRecordedCountAsReached) {
  Event event(someGpu(1));
  EXPECT_TRUE(event.query());
  event.synchronize();
  Stream stream(gpu(0));
  event.wait(stream);
  stream.synchronize();
}

TEST_F(CudaEvents, AreRefusedStreamsOfOtherDevices) {
  if (devices() < 2) GTEST_SKIP() << "two GPUs are needed";
  Stream other(gpu(1));
  Event event(gpu(0));
  expectError(outcomeOf([&] { event.record(other); }), ErrorCode::InvalidArgument,
              "Event::record: the event is of cuda:0, and the stream of cuda:1");
}

TEST_F(CudaEvents, AreRefusedStreamsOfTheOtherKind) {
  Stream host, stream(someGpu(1));
  Event event(gpu(0)), ofHost;
  expectError(outcomeOf([&] { event.record(host); }), ErrorCode::InvalidArgument,
              "the stream of the host");
  expectError(outcomeOf([&] { event.record({}); }), ErrorCode::InvalidArgument,
              "the stream is none");
  expectError(outcomeOf([&] { event.wait(host); }), ErrorCode::InvalidArgument,
              "Event::wait: the event is of cuda:0, and the stream of the host");
  expectError(
      outcomeOf([&] { ofHost.record(stream); }), ErrorCode::InvalidArgument,
      "Event::record: the event is the host's, and the stream is of " + toString(someGpu(1)));
  expectError(outcomeOf([&] { ofHost.wait(stream); }), ErrorCode::InvalidArgument, "Event::wait");
}

/// Captures what `enqueue` does with the stream.
template <class Enqueue>
cudaGraphExec_t capture(const Stream& stream, const Enqueue& enqueue) {
  cudaStream_t const handle = StreamRef(stream).cuda();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(handle, cudaStreamCaptureModeGlobal), cudaSuccess);
  enqueue();
  EXPECT_EQ(cudaStreamEndCapture(handle, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return exec;
}

TEST_F(CudaCapture, KeepsAHostFunctionAsLongAsItsGraph) {
  Stream stream(someGpu(1));
  auto counter = std::make_shared<std::atomic<int>>(0);
  const std::weak_ptr<std::atomic<int>> alive = counter;
  cudaGraphExec_t const exec =
      capture(stream, [&] { stream.enqueue([kept = std::move(counter)] { ++*kept; }); });
  EXPECT_EQ(*alive.lock(), 0) << "it runs when its graph does";
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(cudaGraphLaunch(exec, StreamRef(stream).cuda()), cudaSuccess);
  stream.synchronize();
  EXPECT_EQ(*alive.lock(), 3);
  ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  for (int i = 0; i < 200 && !alive.expired(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(alive.expired());
}

// What cannot be captured is refused before CUDA hears of it, so that the capture goes on; what is
// no part of it is done.
TEST_F(CudaCapture, GoesOnAfterWhatItDoesNotAllow) {
  Stream stream(gpu(0)), other(gpu(0));
  int ran = 0;
  cudaGraphExec_t const exec = capture(stream, [&] {
    expectError(outcomeOf([&] { stream.synchronize(); }), ErrorCode::InvalidUsage,
                "Stream::synchronize: the stream of cuda:0 is being captured");
    expectError(outcomeOf([&] { stream.query(); }), ErrorCode::InvalidUsage, "Stream::query");
    other.synchronize();
    EXPECT_TRUE(other.query());
    EXPECT_TRUE(allocateOn(gpu(0), 64));
    EXPECT_TRUE(allocatePinned(64));
    EXPECT_TRUE(Stream(someGpu(1)).query());
    stream.enqueue([&] { ++ran; });
  });
  ASSERT_EQ(cudaGraphLaunch(exec, StreamRef(stream).cuda()), cudaSuccess);
  stream.synchronize();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(CudaCapture, SpreadsByEventsWhichNobodyCanAskMeanwhile) {
  Stream stream(gpu(0)), branch(gpu(0));
  Event fork(gpu(0)), join(gpu(0));
  std::atomic<int> ran{0};
  cudaGraphExec_t const exec = capture(stream, [&] {
    fork.record(stream);
    fork.wait(branch);
    branch.enqueue([&] { ++ran; });
    expectError(outcomeOf([&] { branch.synchronize(); }), ErrorCode::InvalidUsage, "captured");
    expectError(outcomeOf([&] { fork.query(); }), ErrorCode::InvalidUsage,
                "Event::query: the event of cuda:0 was recorded in a stream that was captured");
    expectError(outcomeOf([&] { fork.synchronize(); }), ErrorCode::InvalidUsage,
                "Event::synchronize");
    join.record(branch);
    join.wait(stream);
  });
  EXPECT_EQ(ran, 0);
  ASSERT_EQ(cudaGraphLaunch(exec, StreamRef(stream).cuda()), cudaSuccess);
  stream.synchronize();
  EXPECT_EQ(ran, 1);
  expectError(outcomeOf([&] { fork.query(); }), ErrorCode::InvalidUsage, "Event::query");
  fork.record(stream);
  fork.synchronize();
  EXPECT_TRUE(fork.query()) << "recorded anew";
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(CudaCapture, EndsWithItsStream) {
  std::string logged;
  setLogSink([&](LogLevel, std::string_view text) { logged += text; });
  {
    Stream stream(gpu(0));
    ASSERT_EQ(cudaStreamBeginCapture(StreamRef(stream).cuda(), cudaStreamCaptureModeGlobal),
              cudaSuccess);
    stream.enqueue([] { ADD_FAILURE() << "nobody has launched it"; });
  }
  setLogSink(nullptr);
  EXPECT_EQ(logged, "");
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "no capture is left";
}

}  // namespace
}  // namespace tutti::tests
