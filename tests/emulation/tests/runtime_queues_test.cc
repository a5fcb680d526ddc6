// Streams that share hardware queues, as CUDA_DEVICE_MAX_CONNECTIONS says: here two for all of a
// device. What waits for a word holds up what is behind it in its queue; what runs does not.

#include <unistd.h>

#include <array>

#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {
namespace {

class QueuesTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    word_ = allocateZeros<uint32_t>(2);
    for (cudaStream_t& stream : streams_)
      ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  void TearDown() override {
    for (cudaStream_t stream : streams_) EXPECT_CUDA(cudaStreamDestroy(stream));
    EXPECT_CUDA(cudaFree(word_));
    RuntimeTest::TearDown();
  }
  void await(cudaStream_t stream) {
    EXPECT_EQ(DRIVER(cuStreamWaitValue32)(stream, CUdeviceptr(word_), 1, CU_STREAM_WAIT_VALUE_EQ),
              CUDA_SUCCESS);
  }
  void open(cudaStream_t stream) {
    EXPECT_EQ(DRIVER(cuStreamWriteValue32)(stream, CUdeviceptr(word_), 1, 0), CUDA_SUCCESS);
  }
  static bool ends(cudaStream_t stream) {
    usleep(20'000);
    return cudaStreamQuery(stream) == cudaSuccess;
  }

  uint32_t* word_ = nullptr;
  std::array<cudaStream_t, 3> streams_{};  // the first and the last share a queue
};

TEST_F(QueuesTest, AreHeldUpByWhatWaits) {
  await(streams_[0]);
  ASSERT_CUDA(cudaMemsetAsync(word_ + 1, 0, 4, streams_[2]));
  EXPECT_FALSE(ends(streams_[2]));
  open(streams_[1]);
  EXPECT_CUDA(cudaStreamSynchronize(streams_[2]));
  EXPECT_CUDA(cudaStreamSynchronize(streams_[0]));
}

TEST_F(QueuesTest, AreHeldUpByWhatIsBehindAWait) {
  cudaEvent_t event = nullptr;
  ASSERT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  await(streams_[1]);
  ASSERT_CUDA(cudaEventRecord(event, streams_[1]));
  ASSERT_CUDA(cudaStreamWaitEvent(streams_[0], event, 0));
  ASSERT_CUDA(cudaMemsetAsync(word_ + 1, 0, 4, streams_[2]));
  EXPECT_FALSE(ends(streams_[2]));
  cudaStream_t other = nullptr;  // of another priority, and so of another queue
  ASSERT_CUDA(cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, -1));
  open(other);
  EXPECT_CUDA(cudaStreamSynchronize(streams_[2]));
  EXPECT_CUDA(cudaStreamDestroy(other));
  EXPECT_CUDA(cudaEventDestroy(event));
}

TEST_F(QueuesTest, AreNotHeldUpByWhatRuns) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto wait = [](void* from) {
    char byte = 0;
    EXPECT_EQ(read(*static_cast<int*>(from), &byte, 1), 1);
  };
  ASSERT_CUDA(cudaLaunchHostFunc(streams_[0], wait, ends));
  ASSERT_CUDA(cudaMemsetAsync(word_, 0, 4, streams_[2]));
  EXPECT_CUDA(cudaStreamSynchronize(streams_[2]));
  EXPECT_EQ(write(ends[1], "", 1), 1);
  EXPECT_CUDA(cudaStreamSynchronize(streams_[0]));
  for (const int end : ends) close(end);
}

}  // namespace
}  // namespace tutti::emulation
