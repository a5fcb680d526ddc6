// What is special to plans that know hosts; that they are right is proved with all others.

#include "collectives/hierarchical.h"

#include <gtest/gtest.h>

#include <tutti/error.h>
#include "src/plan/checker.h"
#include "tests/collectives/plans.h"

namespace tutti::collectives {
namespace {

std::optional<PlanSpec> specFor(Collective collective, const std::vector<int>& hostOf, int root = 0,
                                Protocol protocol = Protocol::Simple) {
  const auto ranks = static_cast<int>(hostOf.size());
  return hierarchical().spec({collective, protocol, ranks, root, 1, plan::hostsInOrder(hostOf)});
}

constexpr std::array kCollectives{Collective::AllReduce,     Collective::AllGather,
                                  Collective::ReduceScatter, Collective::Broadcast,
                                  Collective::Reduce,        Collective::Barrier};

TEST(Hierarchical, NeedsTwoHostsAndTwoRanksOnOne) {
  for (Collective c : kCollectives) {
    EXPECT_FALSE(specFor(c, {0}));
    EXPECT_FALSE(specFor(c, {0, 0, 0, 0}));
    EXPECT_FALSE(specFor(c, {0, 1, 2, 3}));
    EXPECT_TRUE(specFor(c, {0, 1, 2, 0}));
    EXPECT_FALSE(specFor(c, {0, 1, 2, 0}, 0, Protocol::Mapped));
  }
  for (Collective c :
       {Collective::Gather, Collective::Scatter, Collective::AllToAll, Collective::Scan})
    EXPECT_FALSE(specFor(c, {0, 0, 1, 1}));
}

TEST(Hierarchical, HostsAreWhoseRanksTheyAreWhateverTheirNumbers) {
  EXPECT_EQ(specFor(Collective::AllReduce, {5, 5, 2, 2}),
            specFor(Collective::AllReduce, {0, 0, 1, 1}));
  EXPECT_NE(specFor(Collective::AllReduce, {0, 0, 1, 1}),
            specFor(Collective::AllReduce, {0, 1, 0, 1}));
  EXPECT_NE(specFor(Collective::AllReduce, {0, 0, 1, 1})->hash(),
            specFor(Collective::AllReduce, {0, 1, 0, 1})->hash());
}

TEST(Hierarchical, AddsInTheCanonicalOrderWhereHostsAreAligned) {
  const auto canonical = [](const std::vector<int>& hostOf) {
    const bool all = specFor(Collective::AllReduce, hostOf)->canonicalOrder;
    EXPECT_EQ(specFor(Collective::ReduceScatter, hostOf)->canonicalOrder, all);
    return all;
  };
  EXPECT_TRUE(canonical({0, 0, 1, 1}));
  EXPECT_TRUE(canonical({0, 0, 1, 1, 2, 2}));
  EXPECT_TRUE(canonical({0, 0, 0, 0, 1}));
  EXPECT_TRUE(canonical({0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3}));
  EXPECT_FALSE(canonical({0, 1, 0, 1}));
  EXPECT_FALSE(canonical({0, 0, 0, 1, 1, 1}));
  EXPECT_FALSE(canonical({0, 1, 1}));
}

// As the chain has its order: with two hosts whatever the root, with more by luck.
TEST(Hierarchical, ReducesInTheCanonicalOrderOnTwoAlignedHosts) {
  for (int root = 0; root < 8; ++root)
    EXPECT_TRUE(specFor(Collective::Reduce, {0, 0, 0, 0, 1, 1, 1, 1}, root)->canonicalOrder);
  EXPECT_FALSE(specFor(Collective::Reduce, {0, 0, 1, 1, 2, 2, 3, 3}, 0)->canonicalOrder);
}

TEST(Hierarchical, CrossesAHostsLinkAsSeldomAsCanBe) {
  const std::vector<int> hostOf{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  const auto hostBlocks = [&](Collective c) {
    const PlanSpec spec = *specFor(c, hostOf);
    return plan::PlanChecker(spec, hierarchical().build).check({1}).measured.hostBlocks;
  };
  EXPECT_DOUBLE_EQ(hostBlocks(Collective::AllReduce), 2 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(hostBlocks(Collective::AllGather), 12);
  EXPECT_DOUBLE_EQ(hostBlocks(Collective::ReduceScatter), 12);
  EXPECT_DOUBLE_EQ(hostBlocks(Collective::Broadcast), 1);
  EXPECT_DOUBLE_EQ(hostBlocks(Collective::Reduce), 1);
}

TEST(Hierarchical, IsProvedWhenAPlanIsFirstBuilt) {
  const std::vector<int> placement{0, 0, 1, 1, 0};
  int builds = 0;
  AlgorithmInfo info = hierarchical();
  info.build = [&, good = info.build](const PlanSpec& spec, int rank) {
    Program program = good(spec, rank);
    ++builds;
    if (spec.hosts == placement && spec.collective == Collective::AllReduce && rank == 2)
      program.lanes[0].steps.pop_back();
    return program;
  };
  Registry made;
  made.add(info);
  const auto spec = [&](Collective c) {
    return *info.spec({c, Protocol::Simple, 5, 0, 1, placement});
  };
  builds = 0;
  made.build(spec(Collective::AllGather), 0);
  EXPECT_EQ(builds, 6);
  made.build(spec(Collective::AllGather), 1);
  EXPECT_EQ(builds, 7) << "proved again";
  builds = 0;
  std::vector<int> many(kRanksOnHostsProvedInUse + 1, 0);
  many.back() = 1;
  made.build(*specFor(Collective::Barrier, many), 0);
  EXPECT_EQ(builds, 1) << "proved where it is not promised";
  try {
    made.build(spec(Collective::AllReduce), 0);
    FAIL() << "a broken plan was built";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Internal);
    EXPECT_NE(std::string(error.what()).find("hosts 0 0 1 1 0"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("waits for message"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tutti::collectives
