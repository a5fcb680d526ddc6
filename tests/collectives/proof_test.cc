// Every plan of every algorithm is proved, and its measured cost is what its header states: for
// many placements of up to 64 ranks on hosts, for a few of some larger numbers. Which rank counts:
// the arguments `first last [channels]`, so that ctest runs shards side by side.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/plan/checker.h"
#include "tests/collectives/plans.h"
#include "tests/support/test_main.h"

namespace tutti::collectives {
namespace {

std::string firstRanks = "1", lastRanks = "8", channelCount = "1";
const tests::Arguments commandLine{{"[FIRST_RANK_COUNT]", &firstRanks},
                                   {"[LAST_RANK_COUNT]", &lastRanks},
                                   {"[CHANNELS]", &channelCount}};

std::vector<int> rankCounts() {
  std::vector<int> counts;
  for (int ranks = std::stoi(firstRanks); ranks <= std::stoi(lastRanks); ++ranks)
    counts.push_back(ranks);
  return counts;
}
int channels() { return std::stoi(channelCount); }

void prove(const AlgorithmInfo& info, const PlanSpec& spec) {
  const plan::CheckResult result = plan::PlanChecker(spec, info.build).check();
  ASSERT_TRUE(result.ok()) << spec.describe() << "\n" << result.error->message;
  const Cost cost = info.cost(spec);
  EXPECT_EQ(result.measured.steps, cost.steps) << spec.describe();
  EXPECT_DOUBLE_EQ(result.measured.blocksSent, cost.blocksSent) << spec.describe();
  EXPECT_DOUBLE_EQ(result.measured.linkBlocks, cost.linkBlocks) << spec.describe();
  EXPECT_DOUBLE_EQ(result.measured.hostBlocks, cost.hostBlocks) << spec.describe();
}

test::Placements placementsOf(int ranks) {
  if (ranks <= 64) return test::manyPlacements(ranks);
  for (int some : {96, 100, 127, 128, 256})
    if (ranks == some) return test::fewPlacements(ranks);
  return {{}};
}

TEST(Proof, EveryPlanOfTheseRankCounts) {
  int plans = 0;
  for (int ranks : rankCounts())
    for (const AlgorithmInfo& info : registry().algorithms())
      for (const PlanSpec& spec : test::specsOf(info, ranks, channels(), placementsOf(ranks))) {
        ++plans;
        prove(info, spec);
        if (HasFatalFailure()) return;
      }
  std::printf("%d plans proved, each with 1, 2 and 3 rounds, out of place and in place\n", plans);
  ASSERT_GT(plans, 0);
}

TEST(Proof, EachReductionHasACanonicalOrderForTheseRankCounts) {
  for (int ranks : rankCounts())
    for (Collective c :
         {Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce, Collective::Scan})
      for (int root : test::rootsOf(c, ranks)) {
        const auto algorithms = registry().algorithms();
        EXPECT_TRUE(std::ranges::any_of(
            algorithms,
            [&](const AlgorithmInfo& info) {
              const auto spec = info.spec({c, Protocol::Simple, ranks, root, channels()});
              return spec && spec->canonicalOrder;
            }))
            << plan::toString(c) << " on " << ranks;
      }
}

}  // namespace
}  // namespace tutti::collectives
