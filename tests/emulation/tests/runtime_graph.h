#pragma once

// A stream that is captured, and graphs of it.

#include <atomic>

#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {

using cuda::launch;

struct Called {
  std::atomic<int> count{0};
};

class GraphTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    stream_ = makeStream();
    data_ = allocateZeros<int>(4);
  }
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_CUDA(cudaStreamBeginCapture(stream_, mode));
  }
  cudaGraph_t end() {
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph));
    return graph;
  }
  void expectEnd(cudaError_t error) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), error);
    EXPECT_EQ(graph, nullptr);
    cudaStreamCaptureStatus status{};
    EXPECT_CUDA(cudaStreamIsCapturing(stream_, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  }
  cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec = nullptr;
    EXPECT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
  }
  void add(cudaStream_t stream, int value, int at = 0) {
    EXPECT_CUDA(launch(addTo, {.stream = stream}, data_ + at, 1, value));
  }
  int value(int at = 0) {
    EXPECT_CUDA(cudaDeviceSynchronize());
    return download(data_, 4)[size_t(at)];
  }

  cudaStream_t stream_ = nullptr;
  int* data_ = nullptr;
};

}  // namespace tutti::emulation
