// Launches that are captured once and replayed with other data; and ranks of one stream, merged
// into one launch.

#include <gtest/gtest.h>

#include "tests/executor/kernel/calls.h"
#include "tests/executor/kernel/replays.h"

namespace tutti::tests {
namespace {

constexpr int kReplays = 100;

class Graphs : public testing::TestWithParam<Wire> {
 protected:
  static void expectReplays(const Call& call, int replays) {
    EXPECT_EQ(replayMany({.ranks = call.spec.ranks, .devices = 2}, call, GetParam(), replays), "");
  }
};

TEST_P(Graphs, OfAStagedPlanReplay) { expectReplays(ringCall(3, 700), kReplays); }
TEST_P(Graphs, OfAMappedPlanReplay) { expectReplays(mappedCall(2, 700), kReplays / 4); }

// One after the other on one stream they would wait for each other for ever.
TEST_P(Graphs, RanksThatShareAStreamAreMerged) {
  DeviceRanksOptions options{.ranks = 3, .devices = 1};
  options.executor.blocks = 4;
  DeviceRanks ranks(options);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Call call = ringCall(3, 2000);
    ranks.begin(call, GetParam(), seed);
    std::vector<RankCall> all;
    for (int r = 0; r < 3; ++r) all.push_back({&ranks.executor(r), ranks.launchOf(r)});
    launchMerged(all, ranks.stream(0));
    ranks.wait(0);
    const auto expected = hostResult(call, seed, ranks.slotBytes(GetParam()));
    for (int r = 0; r < 3; ++r) ASSERT_EQ(ranks.buffer(r).download(), expected[r].bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, Graphs, testing::ValuesIn(kWires));

TEST(Merged, RanksMustBeAlike) {
  if (devicesOf(2) < 2) GTEST_SKIP() << "it is about two devices";
  DeviceRanks ranks({.ranks = 2, .devices = 2});
  ranks.begin(ringCall(2, 10), Wire::Simple, 1);
  std::vector<RankCall> all;
  for (int r = 0; r < 2; ++r) all.push_back({&ranks.executor(r), ranks.launchOf(r)});
  EXPECT_THROW(launchMerged(all, ranks.stream(0)), Error);  // two devices
}

}  // namespace
}  // namespace tutti::tests
