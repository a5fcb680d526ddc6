// Launches that are captured once and replayed with other data; what is in such a graph.

#include <gtest/gtest.h>

#include "collectives/algorithms.h"
#include "tests/executor/copy/copy_ranks.h"
#include "tests/executor/kernel/replays.h"

namespace tutti::tests {
namespace {

constexpr int kReplays = 20;

/// Replays on all ranks with inputs from `seed`, and compares.
void replay(CopyRanks& ranks, const Call& call, std::span<cudaGraphExec_t> graphs, uint64_t seed) {
  const auto inputs = refillAndLaunch(ranks, call, graphs, seed);
  ranks.finish();
  std::vector<Buffer> results;
  for (int r = 0; r < ranks.size(); ++r) results.push_back(ranks.buffer(r).download());
  ASSERT_EQ(difference(call, hostResult(call, seed, kCopyLayout.copySlotBytes), results), "")
      << "seed " << seed;
}

void replayMany(const Call& call) {
  CopyRanks ranks({.ranks = call.spec.ranks, .devices = 2});
  ranks.begin(call, 1);
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < ranks.size(); ++r) {
    cudaGraph_t graph = captured(ranks, r, [&] { ranks.launch(r); });
    TUTTI_CUDA(cudaGraphInstantiate(&graphs.emplace_back(), graph, 0));
    TUTTI_CUDA(cudaGraphDestroy(graph));
  }
  for (int i = 0; i < kReplays && !testing::Test::HasFatalFailure(); ++i)
    replay(ranks, call, graphs, 10 + static_cast<uint64_t>(i));
  for (cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
}

TEST(CopyGraphs, ReplayWithOtherData) {
  for (const auto& spec : stagedPlans(3, 2)) {
    replayMany({.spec = spec, .count = 1500});
    if (HasFatalFailure()) FAIL() << spec.describe();
  }
}

/// On all ranks.
size_t kernelsIn(const Call& call) {
  CopyRanks ranks({.ranks = call.spec.ranks, .devices = 4});
  ranks.begin(call, 1);
  size_t kernels = 0;
  for (int r = 0; r < ranks.size(); ++r) {
    cudaGraph_t graph = captured(ranks, r, [&] { ranks.launch(r); });
    kernels += kernelsOf(graph);
    TUTTI_CUDA(cudaGraphDestroy(graph));
  }
  return kernels;
}

TEST(CopyGraphs, HaveNoKernelsWhereNothingIsAddedUp) {
  for (const auto& spec : stagedPlans(4, 2)) {
    const size_t kernels = kernelsIn({.spec = spec, .count = 3001});
    if (plan::isReduction(spec.collective))
      EXPECT_GT(kernels, 0U) << spec.describe();
    else
      EXPECT_EQ(kernels, 0U) << spec.describe();
  }
}

// Whoever replays a graph after a failure does not wait for ever.
TEST(CopyGraphs, EndAfterAFailure) {
  CopyRanks ranks({.ranks = 2});
  ranks.begin(ringCall(2, 3000), 1);
  cudaGraph_t graph = captured(ranks, 0, [&] { ranks.launch(0); });
  cudaGraphExec_t exec = nullptr;
  TUTTI_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  ranks.executor(0).abort();
  for (int i = 0; i < 3; ++i) TUTTI_CUDA(cudaGraphLaunch(exec, ranks.stream(0)));
  ranks.finishWithFailures();
  EXPECT_EQ(ranks.failureOf(0).code(), ErrorCode::Aborted);
  EXPECT_EQ(ranks.failureOf(1).code(), ErrorCode::PeerLost);
  TUTTI_CUDA(cudaGraphExecDestroy(exec));
  TUTTI_CUDA(cudaGraphDestroy(graph));
}

}  // namespace
}  // namespace tutti::tests
