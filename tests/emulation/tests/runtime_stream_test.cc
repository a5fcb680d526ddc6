// Streams, events and host functions: what is ordered, what runs side by side.

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {
namespace {

using cuda::launch;

class StreamTest : public RuntimeTest {};

TEST_F(StreamTest, WorkIsInOrder) {
  cudaStream_t const stream = makeStream();
  int* const data = allocateZeros<int>(64);
  for (int i = 1; i <= 10; ++i)
    EXPECT_CUDA(launch(doubleAndAdd, {.block = {64}, .stream = stream}, data, 64, i % 2));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  int expected = 0;
  for (int i = 1; i <= 10; ++i) expected = 2 * expected + i % 2;
  EXPECT_EQ(download(data, 64), std::vector<int>(64, expected));
}

TEST_F(StreamTest, KernelsOfTwoStreamsMeet) {
  uint32_t* const flags = allocateZeros<uint32_t>(2);
  cudaStream_t const one = makeStream(), other = makeStream();
  EXPECT_CUDA(launch(meet, {.stream = one}, flags, flags + 1, 1u));
  EXPECT_CUDA(launch(meet, {.stream = other}, flags + 1, flags, 1u));
  EXPECT_CUDA(cudaStreamSynchronize(one));
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_EQ(download(flags, 2), (std::vector<uint32_t>{1, 1}));
}

TEST_F(StreamTest, KernelsOfTwoDevicesMeet) {
  if (deviceCount() < 2) GTEST_SKIP() << "needs two devices";
  uint32_t* const flags = allocatePinned<uint32_t>(2);
  EXPECT_CUDA(launch(meet, {}, flags, flags + 1, 1u));
  EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_CUDA(launch(meet, {}, flags + 1, flags, 1u));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaSetDevice(0));
  EXPECT_CUDA(cudaDeviceSynchronize());
}

TEST_F(StreamTest, QueryTellsWhetherItIsDone) {
  cudaStream_t const stream = makeStream();
  EXPECT_CUDA(cudaStreamQuery(stream));
  {
    Gate gate(stream);
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  }
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaStreamQuery(stream));
}

TEST_F(StreamTest, TheLegacyStreamWaitsForBlockingOnesAndTheyForIt) {
  cudaStream_t const blocking = makeStream(cudaStreamDefault), free = makeStream();
  int* const data = allocateZeros<int>(1);
  uint32_t* const flag = allocatePinned<uint32_t>(1);
  Gate gate(blocking);
  EXPECT_CUDA(launch(doubleAndAdd, {.stream = blocking}, data, 1, 1));
  EXPECT_CUDA(launch(doubleAndAdd, {}, data, 1, 2));
  EXPECT_CUDA(launch(doubleAndAdd, {.stream = blocking}, data, 1, 3));
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  EXPECT_CUDA(launch(raiseFlag, {.stream = free}, flag, 1u));
  EXPECT_CUDA(cudaStreamSynchronize(free));
  gate.open();
  EXPECT_CUDA(cudaStreamSynchronize(blocking));
  EXPECT_EQ(download(data, 1)[0], 2 * (2 * 1 + 2) + 3);
}

TEST_F(StreamTest, BlockingOnesWaitForTheLegacyStream) {
  cudaStream_t const blocking = makeStream(cudaStreamDefault);
  uint32_t* const flag = allocatePinned<uint32_t>(1);
  Gate gate(nullptr);
  EXPECT_CUDA(launch(raiseFlag, {.stream = blocking}, flag, 7u));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(__atomic_load_n(flag, __ATOMIC_ACQUIRE), 0u);
  gate.open();
  EXPECT_CUDA(cudaStreamSynchronize(blocking));
  EXPECT_EQ(*flag, 7u);
}

TEST_F(StreamTest, NonBlockingOnesRunBesideTheLegacyStream) {
  cudaStream_t const free = makeStream();
  uint32_t* const flag = allocatePinned<uint32_t>(1);
  Gate gate(nullptr);
  EXPECT_CUDA(launch(raiseFlag, {.stream = free}, flag, 7u));
  EXPECT_CUDA(cudaStreamSynchronize(free));
  EXPECT_EQ(*flag, 7u);
}

TEST_F(StreamTest, EachThreadHasADefaultStream) {
  uint32_t* const flag = allocatePinned<uint32_t>(1);
  Gate gate(cudaStreamPerThread);
  std::thread([&] {
    EXPECT_CUDA(launch(raiseFlag, {.stream = cudaStreamPerThread}, flag, 7u));
    EXPECT_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
    EXPECT_EQ(*flag, 7u);
  }).join();
  EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
}

TEST_F(StreamTest, PrioritiesAreClamped) {
  int least = 0, greatest = 0, priority = 1;
  unsigned flags = 9;
  ASSERT_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_LE(greatest, least);
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 10));
  EXPECT_CUDA(cudaStreamGetPriority(stream, &priority));
  EXPECT_EQ(priority, greatest);
  EXPECT_CUDA(cudaStreamGetFlags(stream, &flags));
  EXPECT_EQ(flags, unsigned(cudaStreamNonBlocking));
  EXPECT_CUDA(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, 8), cudaErrorInvalidValue);
}

TEST_F(StreamTest, IsDestroyedWithWorkUnderWay) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* const data = allocateZeros<int>(1);
  Gate gate(stream);
  EXPECT_CUDA(launch(addTo, {.stream = stream}, data, 1, 5));
  EXPECT_CUDA(cudaStreamDestroy(stream));
  gate.open();
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(download(data, 1)[0], 5);
}

TEST_F(StreamTest, EventsOrderStreams) {
  cudaStream_t const one = makeStream(), other = makeStream();
  cudaEvent_t const event = makeEvent();
  int* const data = allocateZeros<int>(1);
  EXPECT_CUDA(cudaStreamWaitEvent(other, event, 0));  // never recorded: nothing to wait for
  {
    Gate gate(one);
    EXPECT_CUDA(launch(doubleAndAdd, {.stream = one}, data, 1, 1));
    EXPECT_CUDA(cudaEventRecord(event, one));
    EXPECT_CUDA(cudaStreamWaitEvent(other, event, 0));
    EXPECT_CUDA(launch(doubleAndAdd, {.stream = other}, data, 1, 2));
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(other), cudaErrorNotReady);
  }
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_CUDA(cudaEventQuery(event));
  EXPECT_EQ(download(data, 1)[0], 4);
}

TEST_F(StreamTest, AnEventIsWaitedForAsItWasThen) {
  cudaStream_t const one = makeStream(), other = makeStream(), third = makeStream();
  cudaEvent_t const event = makeEvent();
  EXPECT_CUDA(cudaEventRecord(event, one));
  EXPECT_CUDA(cudaStreamWaitEvent(other, event, 0));
  Gate gate(third);
  EXPECT_CUDA(cudaEventRecord(event, third));  // no matter to what waited before
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
}

TEST_F(StreamTest, AnEventIsDestroyedWhileOthersWait) {
  cudaStream_t const one = makeStream(), other = makeStream();
  cudaEvent_t const event = makeEvent();
  int* const data = allocateZeros<int>(1);
  {
    Gate gate(one);
    EXPECT_CUDA(launch(doubleAndAdd, {.stream = one}, data, 1, 1));
    EXPECT_CUDA(cudaEventRecord(event, one));
    EXPECT_CUDA(cudaStreamWaitEvent(other, event, 0));
    EXPECT_CUDA(launch(doubleAndAdd, {.stream = other}, data, 1, 2));
    EXPECT_CUDA(cudaEventDestroy(event));
  }
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(download(data, 1)[0], 4);
}

TEST_F(StreamTest, EventsOrderDevices) {
  if (deviceCount() < 2) GTEST_SKIP() << "needs two devices";
  int* const data = allocatePinned<int>(1);
  cudaStream_t const one = makeStream();
  cudaEvent_t const event = makeEvent();
  EXPECT_CUDA(cudaSetDevice(1));
  cudaStream_t const other = makeStream();
  EXPECT_EQ(cudaEventRecord(event, other), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaSetDevice(0));
  {
    Gate gate(one);
    EXPECT_CUDA(launch(doubleAndAdd, {.stream = one}, data, 1, 1));
    EXPECT_CUDA(cudaEventRecord(event, one));
    EXPECT_CUDA(cudaStreamWaitEvent(other, event, 0));
    EXPECT_CUDA(cudaSetDevice(1));
    EXPECT_CUDA(launch(doubleAndAdd, {.stream = other}, data, 1, 2));
  }
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_EQ(data[0], 4);
}

TEST_F(StreamTest, EventsTellTime) {
  cudaStream_t const stream = makeStream();
  cudaEvent_t const first = makeEvent(cudaEventDefault), second = makeEvent(cudaEventDefault);
  cudaEvent_t const untimed = makeEvent();
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, second), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaEventRecord(first, stream));
  {
    Gate gate(stream);
    EXPECT_CUDA(cudaEventRecord(second, stream));
    EXPECT_CUDA(cudaEventSynchronize(first));
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, second), cudaErrorNotReady);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_CUDA(cudaEventSynchronize(second));
  EXPECT_CUDA(cudaEventElapsedTime(&milliseconds, first, second));
  EXPECT_GE(milliseconds, 4);
  EXPECT_CUDA(cudaEventRecord(untimed, stream));
  EXPECT_CUDA(cudaEventSynchronize(untimed));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, untimed), cudaErrorInvalidResourceHandle);
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, 64), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
}

struct HostCalls {
  std::atomic<int> order{0};
  int first = 0, second = 0;
  cudaError_t inside = cudaSuccess, status = cudaErrorUnknown;
};

TEST_F(StreamTest, HostFunctionsRunInOrderAndCallNoCuda) {
  cudaStream_t const stream = makeStream();
  HostCalls calls;
  const auto first = [](void* data) {
    auto* const all = static_cast<HostCalls*>(data);
    all->first = ++all->order;
    void* memory = nullptr;
    all->inside = cudaMalloc(&memory, 16);
  };
  const auto second = [](cudaStream_t, cudaError_t status, void* data) {
    auto* const all = static_cast<HostCalls*>(data);
    all->second = ++all->order;
    all->status = status;
  };
  EXPECT_CUDA(cudaLaunchHostFunc(stream, first, &calls));
  EXPECT_CUDA(cudaStreamAddCallback(stream, second, &calls, 0));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(calls.first, 1);
  EXPECT_EQ(calls.second, 2);
  EXPECT_EQ(calls.inside, cudaErrorNotPermitted);
  EXPECT_EQ(calls.status, cudaSuccess);
  EXPECT_EQ(cudaLaunchHostFunc(stream, nullptr, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamAddCallback(stream, second, &calls, 1), cudaErrorInvalidValue);
}

TEST_F(StreamTest, DeviceSynchronizeWaitsForAllStreams) {
  std::vector<uint32_t*> flags;
  for (int i = 0; i < 4; ++i) {
    flags.push_back(allocatePinned<uint32_t>(1));
    EXPECT_CUDA(launch(raiseFlag, {.stream = makeStream()}, flags.back(), 1u));
  }
  EXPECT_CUDA(cudaDeviceSynchronize());
  for (const uint32_t* flag : flags) EXPECT_EQ(*flag, 1u);
}

}  // namespace
}  // namespace tutti::emulation
