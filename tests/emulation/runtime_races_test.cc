// The order between host, streams and devices that CUDA grants, and no more: what lacks a wait is a
// race to ThreadSanitizer, with which this program is always built. Each case is a process of its
// own.

#include <unistd.h>

#include <cstdlib>

#include "tests/emulation/runtime_test.h"

namespace tutti::emulation {
namespace {

using cuda::launch;

/// Adds, then waits: who comes later finds it still there.
__global__ inline void addAndAwait(int* data, const uint32_t* flag) {
  if (threadIdx.x != 0) return;
  *data += 1;
  while (ptx::ldAcquireSys(flag) == 0) spinHint();
}

/// Adds by the last thread: another fiber than that of a kernel of one thread before it, which
/// ThreadSanitizer would take for the same thread.
__global__ inline void addByLast(int* data) {
  if (threadIdx.x == blockDim.x - 1) *data += 1;
}

class RuntimeRaces : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void synchronize() { EXPECT_CUDA(cudaDeviceSynchronize()); }

/// ThreadSanitizer sees a race in body(false), and none in body(true).
template <class Body>
void expectRace(Body body) {
  EXPECT_EXIT((body(true), std::exit(0)), testing::ExitedWithCode(0), "");
  EXPECT_EXIT((body(false), std::exit(0)), testing::ExitedWithCode(66), "data race");
}

TEST_F(RuntimeRaces, OfTheHostWithAKernel) {
  expectRace([](bool isRight) {
    int* const data = allocatePinned<int>(1);
    cudaStream_t const stream = makeStream();
    launch(addTo, {.stream = stream}, data, 1, 1);
    if (isRight)
      cudaStreamSynchronize(stream);
    else
      usleep(100000);
    data[0] += 1;
    synchronize();
  });
}

TEST_F(RuntimeRaces, OfTheHostWithACopy) {
  expectRace([](bool isRight) {
    int *const data = allocatePinned<int>(1), *const device = allocateZeros<int>(1);
    cudaStream_t const stream = makeStream();
    cudaEvent_t const event = makeEvent();
    if (!isRight) cudaEventRecord(event, stream);  // too early
    cudaMemcpyAsync(device, data, sizeof(int), cudaMemcpyHostToDevice, stream);
    if (isRight) cudaEventRecord(event, stream);
    usleep(100000);
    cudaEventSynchronize(event);
    data[0] = 1;
    synchronize();
  });
}

TEST_F(RuntimeRaces, OfTwoStreams) {
  expectRace([](bool isRight) {
    int* const data = allocateZeros<int>(2);
    auto* const flag = allocatePinned<uint32_t>(1);
    cudaStream_t const one = makeStream(), other = makeStream();
    cudaEvent_t const event = makeEvent();
    launch(addAndAwait, {.stream = one}, data, flag);
    cudaEventRecord(event, one);
    if (isRight) cudaStreamWaitEvent(other, event, 0);
    usleep(100000);
    launch(addByLast, {.block = {64}, .stream = other}, data);
    usleep(100000);
    __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
    synchronize();
  });
}

TEST_F(RuntimeRaces, WithTheLegacyStream) {
  expectRace([](bool isRight) {
    int* const data = allocateZeros<int>(2);
    auto* const flag = allocatePinned<uint32_t>(1);
    cudaStream_t const other = makeStream(isRight ? cudaStreamDefault : cudaStreamNonBlocking);
    launch(addAndAwait, {.stream = other}, data, flag);
    usleep(100000);
    launch(addByLast, {.block = {64}}, data);
    usleep(100000);
    __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
    synchronize();
  });
}

TEST_F(RuntimeRaces, WithWhatIsWrittenAfterALaunch) {
  expectRace([](bool isRight) {
    int* const data = allocatePinned<int>(2);
    cudaStream_t const stream = makeStream();
    cudaLaunchHostFunc(
        stream, [](void*) { usleep(100000); }, nullptr);  // all is enqueued then
    if (isRight) data[0] = 1;
    launch(addTo, {.stream = stream}, data, 1, 1);
    if (!isRight) data[0] = 1;
    // Another launch of the same thread is behind it, and no order for the one before.
    launch(addTo, {.stream = stream}, data + 1, 1, 1);
    synchronize();
  });
}

TEST_F(RuntimeRaces, WithinAGraph) {
  expectRace([](bool isRight) {
    int* const data = allocateZeros<int>(2);
    auto* const flag = allocatePinned<uint32_t>(1);
    cudaStream_t const one = makeStream(), other = makeStream();
    cudaEvent_t const fork = makeEvent(), join = makeEvent();
    cudaStreamBeginCapture(one, cudaStreamCaptureModeRelaxed);
    cudaEventRecord(fork, one);
    launch(addAndAwait, {.stream = one}, data, flag);
    if (isRight) cudaEventRecord(fork, one);
    cudaStreamWaitEvent(other, fork, 0);
    launch(addByLast, {.block = {64}, .stream = other}, data);
    cudaEventRecord(join, other);
    cudaStreamWaitEvent(one, join, 0);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaStreamEndCapture(one, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, one);
    usleep(200000);
    __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
    synchronize();
  });
}

}  // namespace
}  // namespace tutti::emulation
