// The scratch memory that a rank's plans share: there from the beginning, large enough, and one
// operation's at a time.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithms.h"
#include "tests/executor/copy/copy_ranks.h"

namespace tutti::tests {
namespace {

using executor::copy::mostScratchBytes;
using executor::copy::scratchBytes;
using plan::Collective;

TEST(CopyScratch, IsEnoughForEveryStagedPlan) {
  uint64_t most = 0;
  for (const int channels : {1, 2, 3}) {
    const transports::p2p::P2pLayout layout{
        .rings = {.channels = channels, .slotCount = 4, .slotBytes = 4096},
        .copySlotBytes = 1 << 20};
    for (int ranks = 1; ranks <= 130; ++ranks)
      for (const auto& algorithm : collectives::registry().algorithms())
        for (int c = 0; c < plan::kCollectiveCount; ++c) {
          const auto spec = algorithm.spec(
              {static_cast<Collective>(c), plan::Protocol::Simple, ranks, 0, channels});
          if (!spec) continue;
          const uint64_t bytes = mostScratchBytes(*spec, layout);
          EXPECT_LE(bytes, scratchBytes(layout)) << spec->describe();
          if (bytes == scratchBytes(layout)) ++most;
        }
  }
  EXPECT_GT(most, 0U) << "half of it would be enough";
}

TEST(CopyScratch, IsNotAskedForMoreThanThereIs) {
  CopyRanks ranks({.ranks = 2});
  plan::PlanSpec spec = ringCall(2, 0).spec;
  const plan::ProgramOf programs = programsOf(spec);
  spec.scratchBlocks = 1000;
  for (const std::string& part : {std::to_string(mostScratchBytes(spec, kCopyLayout)),
                                  std::to_string(scratchBytes(kCopyLayout))})
    expectError(outcomeOf([&] { ranks.executor(1).prepare(spec, programs); }),
                ErrorCode::InvalidArgument, part + " ");
}

TEST(CopyScratch, OfMessagesThatNoSlotHoldsHasNoBound) {
  plan::PlanSpec spec = ringCall(2, 0).spec;
  spec.scratchBlocks = 1;
  const auto refusal = [&] { return outcomeOf([&] { mostScratchBytes(spec, kCopyLayout); }); };
  spec.messageChunks = 0;
  expectError(refusal(), ErrorCode::InvalidArgument, "without bound");
  spec.messageChunks = 1 << 20;
  expectError(refusal(), ErrorCode::InvalidArgument, "slots of 4096 bytes do not hold");
}

/// The plan of the algorithm, which has scratch memory.
plan::PlanSpec recursive(Collective collective, int ranks) {
  return planOf(plan::Algorithm::Recursive, collective, plan::Protocol::Simple, ranks);
}

// Nobody waits for one before the next is enqueued.
TEST(CopyScratch, IsTheNextOperationsWhenOneHasEnded) {
  constexpr int kRanks = 4, kCalls = 8;
  CopyRanks ranks({.ranks = kRanks});
  std::vector<Call> calls;
  for (int i = 0; i < kCalls; ++i)
    calls.push_back(
        {.spec = recursive(i % 2 == 0 ? Collective::Scan : Collective::ReduceScatter, kRanks),
         .count = 3001});
  std::vector<std::unique_ptr<executor::PreparedPlan>> plans;
  std::vector<std::vector<DeviceBuffer>> buffers(kCalls);
  for (int i = 0; i < kCalls; ++i)
    for (int r = 0; r < kRanks; ++r) {
      const auto seed = static_cast<uint64_t>(i);
      const auto memory = memoryOf(calls[i], r, seed);
      const DeviceBuffer& buffer = buffers[i].emplace_back(ranks.deviceOf(r), memory.bytes, 0);
      plans.push_back(ranks.executor(r).prepare(calls[i].spec, programsOf(calls[i].spec)));
      ranks.launch(r, {plans.back().get(),
                       calls[i].on(r, buffer.data() + memory.in, buffer.data() + memory.out)});
    }
  ranks.finish();
  for (int i = 0; i < kCalls; ++i) {
    std::vector<Buffer> results;
    for (int r = 0; r < kRanks; ++r) {
      ASSERT_EQ(std::string(ranks.failureOf(r).what()), "");
      results.push_back(buffers[i][r].download());
    }
    const auto seed = static_cast<uint64_t>(i);
    EXPECT_EQ(difference(calls[i], hostResult(calls[i], seed, kCopyLayout.copySlotBytes), results),
              "");
  }
}

}  // namespace
}  // namespace tutti::tests
