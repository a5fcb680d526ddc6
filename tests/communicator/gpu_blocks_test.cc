// How many blocks of threads a communicator's kernels have on emulated GPUs: what its ranks ask
// for, and what a device has left.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "src/communicator/cuda/block_shares.h"
#include "tests/communicator/gpu_ranks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

class GpuBlocks : public CudaTest {};

/// Communicators that leave no more than so many of all blocks: each takes half of what is left.
std::vector<std::vector<Communicator>> fill(size_t& left, size_t most) {
  std::vector<std::vector<Communicator>> made;
  const auto all = static_cast<int>(left);
  for (; left > most; left -= left / 2) made.push_back(makeRanks(1, 1, {.gpuBlocks = all}));
  return made;
}

/// How many communicators of a rank each can work beside others on a GPU.
size_t fitting(int blocks) {
  std::vector<std::vector<Communicator>> made;
  const Memory memory = allocateOn(gpu(0), 64);
  for (;;) {
    made.push_back(makeRanks(1, 1, {.gpuBlocks = blocks}));
    const Outcome outcome = outcomeOf([&] {
      made.back()[0].allReduce({.send = memory.data(), .recv = memory.data(), .count = 16});
    });
    if (outcome.text == "no error") continue;
    expectError(outcome, ErrorCode::Unsupported, "no blocks are left on cuda:0");
    return made.size() - 1;
  }
}

// Of a device that has few blocks left, because a large one holds hundreds.
TEST_F(GpuBlocks, AreNoMoreThanARankMayTake) {
  size_t left = communicator::BlockShares::ofProcess().residency().capacity(0);
  const auto others = fill(left, 16);
  EXPECT_EQ(fitting(1), left);
  EXPECT_LT(fitting(2), left);
  EXPECT_LT(fitting(0), fitting(2));
  expectError(outcomeOf([] { makeRanks(1, 1, {.gpuBlocks = -1}); }), ErrorCode::InvalidArgument,
              "gpuBlocks is -1");
}

// As a training has for its axes. On a large device the last has as many as the first.
TEST_F(GpuBlocks, OfSixCommunicatorsAreAlike) {
  executor::cuda::Residency residency;
  communicator::BlockShares shares(residency);
  std::vector<uint32_t> blocks;
  for (uint64_t group = 1; group <= 6; ++group)
    blocks.push_back(shares.take(group, 0, 1, communicator::wantedBlocks(1)));
  const bool isLarge = residency.capacity(0) >= 7 * blocks.front();
  EXPECT_EQ(blocks.front() == blocks.back(), isLarge) << blocks.front() << " " << blocks.back();
}

/// A rank for each of them, which asks for so many.
std::vector<Communicator> makeRanksWith(const std::vector<int>& blocks, int devices) {
  CommunicatorOptions options{.id = UniqueId::create(UniqueId::Reach::Host),
                              .size = static_cast<int>(blocks.size())};
  devices = std::min(devices, deviceCount(DeviceKind::Cuda));
  std::vector<std::optional<Communicator>> made(blocks.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < options.size; ++r) {
    options.rank = r;
    options.device = gpu(r % devices);
    options.gpuBlocks = blocks[r];
    threads.emplace_back([&made, options] { made[options.rank] = Communicator::create(options); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Communicator> ranks;
  for (auto& communicator : made) ranks.push_back(std::move(*communicator));
  return ranks;
}

constexpr size_t kCount = 1 << 18;  // in many slices, where there are blocks for them

/// Of the kernel that is captured of an AllReduce.
unsigned blocksOfKernel(Setting& s, int rank) {
  const cudaStream_t stream = StreamRef(s.streams[rank]).cuda();
  EXPECT_EQ(cudaSetDevice(s.ranks[rank].device().index), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  s.ranks[rank].allReduce(s.args(rank, kCount), s.streams[rank]);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  size_t count = 1;
  cudaGraphNode_t node = nullptr;
  EXPECT_EQ(cudaGraphGetNodes(graph, &node, &count), cudaSuccess);
  cudaKernelNodeParams kernel{};
  EXPECT_EQ(cudaGraphKernelNodeGetParams(node, &kernel), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return kernel.gridDim.x;
}

// Into how many slices a call is cut follows from the blocks, and is the same on all ranks.
TEST_F(GpuBlocks, OfKernelsAreTheFewestThatARankAsksFor) {
  for (const int devices : {1, 2})
    for (const auto& blocks : {std::vector{2, 5}, std::vector{0, 3}, std::vector{7, 1, 4}}) {
      auto ranks = makeRanksWith(blocks, devices);
      if (!kSanitized) runRanks(ranks, checkAllSizes);
      Setting s(std::move(ranks), kCount);
      const auto size = static_cast<int>(blocks.size());
      std::vector<unsigned> launched;
      for (int r = 0; r < size; ++r) launched.push_back(blocksOfKernel(s, r));
      EXPECT_EQ(std::ranges::count(launched, launched[0]), size);
      const int least = blocks[0] == 0 ? blocks[1] : std::ranges::min(blocks);
      EXPECT_LE(launched[0], static_cast<unsigned>(least));
      for (int r = 0; r < size; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
      for (int r = 0; r < size; ++r) s.streams[r].synchronize();
      const auto sum = static_cast<float>(size * (size + 1) / 2);
      for (int r = 0; r < size; ++r) EXPECT_TRUE(s.values[r].are(sum)) << r;
    }
}

// A device of four multiprocessors has room for no more than some ranks ask for above; one that
// works on more slices has.
TEST_F(GpuBlocks, OfKernelsAreManyWhereNobodyAsksForFew) {
  Setting s(2, 2, kCount);
  int processors = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(blocksOfKernel(s, r) > 3, processors >= 16) << processors;
}

}  // namespace
}  // namespace tutti::tests
