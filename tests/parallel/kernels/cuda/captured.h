#pragma once

// Which kernels a call launches, and of how many blocks: what a captured call says without running.

#include <cuda_runtime_api.h>

#include <vector>

#include "tests/emulation/device_array.h"

namespace tutti::tests {

struct CapturedKernel {
  const void* function;
  int64_t blocks;
};

/// Of `enqueue(stream)`.
template <class Enqueue>
std::vector<CapturedKernel> kernelsOf(const Enqueue& enqueue) {
  using emulation::check;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  check(enqueue(stream));
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph));
  size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  check(cudaGraphGetNodes(graph, nodes.data(), &count));
  std::vector<CapturedKernel> kernels;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeKernel) continue;
    cudaKernelNodeParams params{};
    check(cudaGraphKernelNodeGetParams(node, &params));
    kernels.push_back(
        {params.func, int64_t{params.gridDim.x} * params.gridDim.y * params.gridDim.z});
  }
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
  return kernels;
}

}  // namespace tutti::tests
