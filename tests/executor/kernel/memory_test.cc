// What the executor holds in memory: programs come from an arena while kernels run, and a rank that
// leaves takes nothing with it that its peers still write to.

#include <gtest/gtest.h>

#include "collectives/algorithms.h"
#include "src/executor/kernel/arena.h"
#include "tests/executor/kernel/calls.h"

namespace tutti::tests {
namespace {

using executor::kernel::DeviceArena;

TEST(Arenas, GiveBackWhatNobodyHolds) {
  std::vector<unsigned char> memory(1024);
  DeviceArena arena(memory.data(), memory.size(), "an arena");
  auto first = arena.take(1, "a"), second = arena.take(300, "b"), third = arena.take(512, "c");
  EXPECT_EQ(first.get(), memory.data());
  EXPECT_EQ(second.get(), memory.data() + 128);
  EXPECT_EQ(third.get(), memory.data() + 512);
  EXPECT_EQ(arena.tryTake(1), nullptr);
  second.reset();
  EXPECT_EQ(arena.tryTake(385), nullptr);
  second = arena.tryTake(384);
  EXPECT_EQ(second.get(), memory.data() + 128);
  third.reset();
  EXPECT_EQ(arena.tryTake(513), nullptr);
  EXPECT_EQ(arena.tryTake(SIZE_MAX - 200), nullptr);
}

TEST(Arenas, RefuseWithTheNumbers) {
  std::vector<unsigned char> memory(1024);
  DeviceArena arena(memory.data(), memory.size(), "an arena");
  const auto held = arena.take(256, "a");
  try {
    arena.take(769, "a program");
    FAIL() << "there is no room";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OutOfMemory);
    EXPECT_STREQ(error.what(),
                 "a program needs 769 bytes in one piece of an arena, which has 1024, of which 256 "
                 "are in use");
  }
}

// Parts may be held longer than the arena, as plans are that outlive their executor.
TEST(Arenas, MayEndBeforeTheirParts) {
  std::vector<unsigned char> memory(256);
  std::shared_ptr<unsigned char> part;
  {
    DeviceArena arena(memory.data(), memory.size(), "an arena");
    part = arena.take(1, "a");
  }
  part.reset();
}

std::unique_ptr<KernelPlan> prepared(DeviceRanks& ranks, const Call& call) {
  return ranks.executor(0).prepareProgram(call.spec, collectives::build(call.spec, 0));
}

TEST(Programs, ThatAreAlikeAreOneImage) {
  DeviceRanksOptions options{.ranks = 2};
  options.executor.arenaBytes = 4096;
  DeviceRanks ranks(options);
  std::vector<std::unique_ptr<KernelPlan>> plans;
  for (int i = 0; i < 100; ++i) plans.push_back(prepared(ranks, ringCall(2, 0)));
  plans.clear();
  // And what nobody holds is given back.
  for (int i = 0; i < 100; ++i)
    for (const plan::PlanSpec& spec : allPlans(2, 1))
      if (spec.scratchBlocks == 0) prepared(ranks, {.spec = spec});
}

TEST(Programs, ThatDoNotFitAreRefused) {
  DeviceRanksOptions options{.ranks = 2};
  options.executor.arenaBytes = 128;
  DeviceRanks ranks(options);
  try {
    prepared(ranks, ringCall(2, 0));
    FAIL() << "there is no room";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OutOfMemory);
    const std::string text = error.what();
    for (const char* part : {"a program needs", "the arena of rank 0 on device 0, which has 128"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

// Another rank's kernel may spin on the device until this rank's program is there.
TEST(Programs, ArePreparedWhileKernelsSpin) {
  DeviceRanks ranks({.ranks = 2, .devices = 1});
  const Call call = ringCall(2, 300);
  ranks.begin(call, Wire::Simple, 1);
  size_t before = 0, after = 0, total = 0;
  TUTTI_CUDA(cudaMemGetInfo(&before, &total));
  ranks.launch(1);
  const auto other = prepared(ranks, mappedCall(2, 300));
  TUTTI_CUDA(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
  ranks.launch(0);
  for (int r = 0; r < 2; ++r) ranks.wait(r);
  EXPECT_FALSE(ranks.executor(0).failure());
}

// A capture in global mode forbids its thread, and others, most of what set-up needs.
TEST(Programs, ArePreparedInACapture) {
  DeviceRanks ranks({.ranks = 2});
  cudaGraph_t graph = nullptr;
  TUTTI_CUDA(cudaStreamBeginCapture(ranks.stream(0), cudaStreamCaptureModeGlobal));
  EXPECT_NO_THROW(prepared(ranks, ringCall(2, 300)));
  TUTTI_CUDA(cudaStreamEndCapture(ranks.stream(0), &graph));
  TUTTI_CUDA(cudaGraphDestroy(graph));
}

// The root has sent all and is gone when the other rank takes it, and gives the credit back.
TEST(Leaving, TakesNoMemoryFromPeers) {
  for (const Wire wire : kWires) {
    DeviceRanks ranks({.ranks = 2});
    Call call{.count = 100};
    for (const plan::PlanSpec& spec : allPlans(2, 1))
      if (spec.collective == plan::Collective::Broadcast && spec.protocol == plan::Protocol::Simple)
        call.spec = spec;
    const int root = call.spec.root;
    ranks.begin(call, wire, 1);
    ranks.launch(root);
    ranks.wait(root);
    ranks.destroy(root);
    ranks.launch(1 - root);
    ranks.wait(1 - root);
    EXPECT_FALSE(ranks.executor(1 - root).failure());
    EXPECT_EQ(ranks.buffer(1 - root).download(),
              hostResult(call, 1, ranks.slotBytes(wire))[1 - root].bytes);
  }
}

}  // namespace
}  // namespace tutti::tests
