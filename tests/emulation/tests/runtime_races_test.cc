// The order between host, streams and devices that CUDA grants, and no more: what lacks a wait is a
// race to ThreadSanitizer, with which this program is always built. Each case is a process of its
// own.

#include <unistd.h>

#include <cstdlib>

#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {
namespace {

using cuda::launch;

/// What kernels and the host tell each other: by relaxed stores, which order nothing, but the last.
struct Signs {
  uint32_t firstHasAdded, secondHasAdded, firstMayEnd;
};

/// The first: adds, then waits.
__global__ inline void addAndAwait(int* data, Signs* signs) {
  if (threadIdx.x != 0) return;
  *data += 1;
  ptx::stRelaxedSys(&signs->firstHasAdded, 1);
  while (ptx::ldAcquireSys(&signs->firstMayEnd) == 0) spinHint();
}

/// The second: adds by the last thread, which is another fiber than the first's: ThreadSanitizer
/// would take one fiber for one thread.
__global__ inline void addByLast(int* data, Signs* signs) {
  if (threadIdx.x != blockDim.x - 1) return;
  *data += 1;
  ptx::stRelaxedSys(&signs->secondHasAdded, 1);
}

/// For half a minute at most: then there is no race to be seen, which fails the test.
void await(const uint32_t& sign) {
  for (int i = 0; i < 300'000 && __atomic_load_n(&sign, __ATOMIC_RELAXED) == 0; ++i) usleep(100);
}

/// With both under way: once the first has added, and has seen the second do so, which it does not
/// where it is behind the first.
void endFirst(Signs& signs, bool isSecondBehind) {
  await(signs.firstHasAdded);
  if (isSecondBehind)
    usleep(100000);
  else
    await(signs.secondHasAdded);
  __atomic_store_n(&signs.firstMayEnd, 1u, __ATOMIC_RELEASE);
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
    auto* const signs = allocatePinned<Signs>(1);
    cudaStream_t const one = makeStream(), other = makeStream();
    cudaEvent_t const event = makeEvent();
    launch(addAndAwait, {.stream = one}, data, signs);
    cudaEventRecord(event, one);
    if (isRight) cudaStreamWaitEvent(other, event, 0);
    launch(addByLast, {.block = {64}, .stream = other}, data, signs);
    endFirst(*signs, isRight);
    synchronize();
  });
}

TEST_F(RuntimeRaces, WithTheLegacyStream) {
  expectRace([](bool isRight) {
    int* const data = allocateZeros<int>(2);
    auto* const signs = allocatePinned<Signs>(1);
    cudaStream_t const other = makeStream(isRight ? cudaStreamDefault : cudaStreamNonBlocking);
    launch(addAndAwait, {.stream = other}, data, signs);
    launch(addByLast, {.block = {64}}, data, signs);
    endFirst(*signs, isRight);
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
    auto* const signs = allocatePinned<Signs>(1);
    cudaStream_t const one = makeStream(), other = makeStream();
    cudaEvent_t const fork = makeEvent(), join = makeEvent();
    cudaStreamBeginCapture(one, cudaStreamCaptureModeRelaxed);
    cudaEventRecord(fork, one);
    launch(addAndAwait, {.stream = one}, data, signs);
    if (isRight) cudaEventRecord(fork, one);
    cudaStreamWaitEvent(other, fork, 0);
    launch(addByLast, {.block = {64}, .stream = other}, data, signs);
    cudaEventRecord(join, other);
    cudaStreamWaitEvent(one, join, 0);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaStreamEndCapture(one, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, one);
    endFirst(*signs, isRight);
    synchronize();
  });
}

}  // namespace
}  // namespace tutti::emulation
