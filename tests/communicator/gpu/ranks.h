#pragma once

// Ranks of one process on GPUs, with a stream and a buffer each.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include <tutti/tutti.h>

#include "src/device/cuda.h"
#include "tests/device/cuda_test.h"
#include "tests/support/collective_checks.h"

namespace tutti::tests {

/// Ranks 0, 1, ... on devices 0, 1, ... and again; on as many as there are, at most.
inline std::vector<Communicator> makeRanks(int ranks, int devices,
                                           CommunicatorOptions options = {}) {
  devices = std::min(devices, deviceCount(DeviceKind::Cuda));
  for (int r = 0; r < ranks; ++r) options.devices.push_back(gpu(r % devices));
  return Communicator::createLocal(ranks, options);
}

/// Floats of a GPU, all the same.
class Floats {
 public:
  Floats(Device device, size_t count, float value) : memory_(allocateOn(device, 4 * count)) {
    put(value);
  }
  float* data() const { return memory_.as<float>(); }
  void put(float value) {
    const std::vector<float> all(memory_.bytes() / 4, value);
    device::copyMemory(data(), all.data(), memory_.bytes());
  }
  bool are(float value) const {
    std::vector<float> all(memory_.bytes() / 4);
    device::copyMemory(all.data(), data(), memory_.bytes());
    return std::ranges::all_of(all, [&](float x) { return x == value; });
  }

 private:
  Memory memory_;
};

/// One of each for every rank.
struct Setting {
  Setting(std::vector<Communicator> communicators, size_t count) : ranks(std::move(communicators)) {
    for (const Communicator& c : ranks) {
      streams.emplace_back(c.device());
      values.emplace_back(c.device(), count, static_cast<float>(c.rank() + 1));
    }
  }
  Setting(int size, int devices, size_t count, const CommunicatorOptions& options = {})
      : Setting(makeRanks(size, devices, options), count) {}
  AllReduceArgs args(int r, size_t count) const {
    return {.send = values[r].data(),
            .recv = values[r].data(),
            .count = count,
            .type = DataType::Float32};
  }
  std::vector<Communicator> ranks;
  std::vector<Stream> streams;
  std::vector<Floats> values;
};

/// All collectives, of several sizes.
inline void checkAllSizes(Communicator& c, std::initializer_list<bool> inPlace) {
  Windows windows(c, 2 << 20);
  for (const size_t count : {size_t{0}, size_t{1}, size_t{30011}})
    for (const bool isInPlace : inPlace)
      checkAll(c, {.count = count,
                   .root = static_cast<int>(count) % c.size(),
                   .inPlace = isInPlace,
                   .windows = &windows});
  c.barrier();
}
/// In place and not.
inline void checkInAllPlaces(Communicator& c) { checkAllSizes(c, {false, true}); }

/// What `calls` enqueues on the stream, as a graph.
template <class Calls>
cudaGraphExec_t capture(const Communicator& c, cudaStream_t stream, const Calls& calls,
                        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaSetDevice(c.device().index), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
  calls();
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return exec;
}

/// Of the kernel that is captured of a rank's AllReduce.
inline cudaKernelNodeParams kernelOf(Setting& s, int rank, size_t count,
                                     const CallOptions& options = {}) {
  const cudaStream_t stream = StreamRef(s.streams[rank]).cuda();
  EXPECT_EQ(cudaSetDevice(s.ranks[rank].device().index), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  AllReduceArgs args = s.args(rank, count);
  args.options = options;
  s.ranks[rank].allReduce(args, s.streams[rank]);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphNode_t nodes[8];
  size_t nodeCount = std::size(nodes);
  EXPECT_EQ(cudaGraphGetNodes(graph, nodes, &nodeCount), cudaSuccess);
  cudaKernelNodeParams kernel{};
  for (size_t i = 0; i < nodeCount; ++i) {
    cudaGraphNodeType type{};
    EXPECT_EQ(cudaGraphNodeGetType(nodes[i], &type), cudaSuccess);
    if (type != cudaGraphNodeTypeKernel) continue;
    EXPECT_EQ(cudaGraphKernelNodeGetParams(nodes[i], &kernel), cudaSuccess);
  }
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return kernel;
}

/// So many AllReduces of each rank, captured into a graph that is replayed.
inline void checkReplays(Setting& s, size_t count, int calls, int replays) {
  const auto size = static_cast<int>(s.ranks.size());
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < size; ++r)
    graphs.push_back(capture(
        s.ranks[r], StreamRef(s.streams[r]).cuda(),
        [&] {
          for (int call = 0; call < calls; ++call)
            s.ranks[r].allReduce(s.args(r, count), s.streams[r]);
        },
        cudaStreamCaptureModeGlobal));
  const auto grown = static_cast<float>(std::pow(size, calls));
  for (int replay = 1; replay <= replays; ++replay) {
    for (int r = 0; r < size; ++r) s.values[r].put(static_cast<float>(replay));
    for (int r = 0; r < size; ++r)
      ASSERT_EQ(cudaGraphLaunch(graphs[r], StreamRef(s.streams[r]).cuda()), cudaSuccess);
    for (int r = 0; r < size; ++r) s.streams[r].synchronize();
    for (int r = 0; r < size; ++r)
      EXPECT_TRUE(s.values[r].are(grown * static_cast<float>(replay))) << r << " " << replay;
  }
  for (const cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

}  // namespace tutti::tests
