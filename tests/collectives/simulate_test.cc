// The walk of classes against the walk of all ranks; both against times worked out by hand; the
// symmetries that algorithms claim against their programs.

#include "collectives/simulate.h"

#include <gtest/gtest.h>

#include <bit>

#include "collectives/bounds.h"
#include "tests/collectives/clusters.h"
#include "tests/collectives/plans.h"

namespace tutti::collectives {
namespace {

using plan::Port;
using plan::Symmetry;
using topology::Cluster;

/// What time knows of a port: chunk numbers are of no matter, and of a local port the buffer is not
/// either.
struct Seen {
  Port::Kind kind;
  int rank;
  uint32_t chunks;
  auto operator<=>(const Seen&) const = default;
};

/// `ports` as the rank that `move` makes of theirs has them.
std::vector<Seen> seen(const std::vector<Port>& ports, const Symmetry& symmetry, int move) {
  std::vector<Seen> all;
  for (const Port& port : ports)
    all.push_back({port.kind, port.kind == Port::Kind::Local ? -1 : symmetry.moved(port.rank, move),
                   port.chunks});
  return all;
}

/// Sources are a set: a step waits for all of them. Targets are sent to in their order.
bool alike(const plan::Step& a, const plan::Step& b, const Symmetry& symmetry, int move) {
  std::vector<Seen> as = seen(a.sources, symmetry, move), bs = seen(b.sources, symmetry, 0);
  std::ranges::sort(as);
  std::ranges::sort(bs);
  return as == bs && seen(a.targets, symmetry, move) == seen(b.targets, symmetry, 0) &&
         a.after == b.after;
}

bool alike(const Program& a, const Program& b, const Symmetry& symmetry, int move) {
  if (a.lanes.size() != b.lanes.size()) return false;
  for (size_t lane = 0; lane < a.lanes.size(); ++lane) {
    const auto& as = a.lanes[lane].steps;
    const auto& bs = b.lanes[lane].steps;
    if (a.lanes[lane].channel != b.lanes[lane].channel || as.size() != bs.size()) return false;
    for (size_t step = 0; step < as.size(); ++step)
      if (!alike(as[step], bs[step], symmetry, move)) return false;
  }
  return true;
}

/// Of every rank: its program relabelled is that of its representative.
void expectSymmetry(const AlgorithmInfo& info, const PlanSpec& spec) {
  const Symmetry symmetry = info.symmetry(spec);
  ASSERT_EQ(symmetry.ranks, spec.ranks);
  if (symmetry.kind == Symmetry::Kind::None) return;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    const int move = symmetry.moveOf(rank);
    if (move == 0) continue;
    ASSERT_TRUE(
        alike(info.build(spec, rank), info.build(spec, symmetry.moved(rank, move)), symmetry, move))
        << spec.describe() << ": rank " << rank << " is not like rank "
        << symmetry.moved(rank, move);
  }
}

TEST(Symmetries, HoldForEveryPlanOfUpTo64Ranks) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const AlgorithmInfo& info : registry().algorithms())
      for (const PlanSpec& spec : test::specsOf(info, ranks, 2, test::manyPlacements(ranks)))
        expectSymmetry(info, spec);
}

TEST(Symmetries, HoldForManyRanksOfHosts) {
  const Cluster cluster = test::railCluster();
  for (int ranks : {96, 100, 256, 264, 480})
    for (const AlgorithmInfo& info : registry().algorithms())
      for (int c = 0; c < plan::kCollectiveCount; ++c)
        if (const auto spec = specOn(cluster, info, static_cast<Collective>(c), ranks, 1))
          expectSymmetry(info, *spec);
}

TEST(Symmetries, AreClaimedWhereRanksHaveManySteps) {
  const auto ofAllReduce = [](Algorithm algorithm) {
    const AlgorithmInfo& info = registry().find(algorithm);
    return info.symmetry(*specOn(test::railCluster(), info, Collective::AllReduce, 96, 1));
  };
  for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::OneShot, Algorithm::TwoShot})
    EXPECT_EQ(ofAllReduce(algorithm).representatives(), std::vector<int>{0});
  EXPECT_EQ(ofAllReduce(Algorithm::Hierarchical).representatives().size(), 8U);
  EXPECT_EQ(ofAllReduce(Algorithm::Recursive).representatives(), (std::vector<int>{0, 32, 64}));
  EXPECT_EQ(ofAllReduce(Algorithm::DoubleTree).representatives().size(), 96U);
}

TEST(Symmetries, OfGroupsKeepNeighboursTogether) {
  EXPECT_EQ(Symmetry::shift(24, 1).ofGroups(8).representatives().size(), 8U);
  EXPECT_EQ(Symmetry::shift(24, 3).ofGroups(4).representatives().size(), 12U);
  EXPECT_EQ(Symmetry::shift(24, 1).ofGroups(16).kind, Symmetry::Kind::None);
  EXPECT_EQ(Symmetry::shift(24, 1).ofGroups(24).kind, Symmetry::Kind::None);
  EXPECT_EQ(Symmetry::flip(96, 1, 32).ofGroups(8).representatives().size(), 24U);
  EXPECT_EQ(Symmetry::flip(96, 1, 32).ofGroups(6).kind, Symmetry::Kind::None);
  EXPECT_EQ(Symmetry::flip(96, 1, 32).ofGroups(32).kind, Symmetry::Kind::None);
  for (const Symmetry& symmetry :
       {Symmetry::shift(24, 4), Symmetry::flip(96, 4, 32), Symmetry::none(7)}) {
    const std::vector<int> all = symmetry.representatives();
    for (int rank = 0; rank < symmetry.ranks; ++rank) {
      const int representative = symmetry.moved(rank, symmetry.moveOf(rank));
      EXPECT_TRUE(std::ranges::binary_search(all, representative)) << rank;
      EXPECT_EQ(symmetry.moveOf(representative), 0);
    }
  }
}

constexpr Collective kCompared[] = {
    Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast,
    Collective::Reduce,    Collective::AllToAll,  Collective::Barrier};

/// Both walks of every plan for blocks of these sizes; returns how many were of fewer ranks.
int compareWalks(const Cluster& cluster, int ranks, int channels,
                 const std::vector<uint64_t>& sizes) {
  int folded = 0;
  for (const AlgorithmInfo& info : registry().algorithms())
    for (const Collective collective : kCompared) {
      const auto spec = specOn(cluster, info, collective, ranks, channels);
      if (!spec) continue;
      const Simulation classes(info, *spec, cluster);
      if (classes.ranksWalked() == static_cast<size_t>(ranks)) continue;
      ++folded;
      const Simulation all(info, *spec, cluster, Simulation::Walked::AllRanks);
      EXPECT_EQ(all.refusal() + classes.refusal(), "") << spec->describe();
      EXPECT_EQ(all.ranksWalked(), static_cast<size_t>(ranks));
      for (const uint64_t bytes : sizes) {
        const double exact = all.microseconds(bytes);
        EXPECT_NEAR(classes.microseconds(bytes), exact, 1e-9 * exact)
            << cluster.name << ", " << spec->describe() << ", " << bytes << " bytes, "
            << classes.ranksWalked() << " ranks walked";
      }
    }
  return folded;
}

TEST(Simulation, OfClassesIsThatOfAllRanks) {
  for (const Cluster& cluster : test::clusters())
    for (int ranks : {16, 24, 32, 64, 72, 96, 128, 160}) {
      const int folded = compareWalks(cluster, ranks, 1, {0, 64, 5000, 1 << 20, 64 << 20});
      const bool fits = ranks % cluster.ranksTogether() == 0 && ranks > cluster.ranksTogether();
      EXPECT_GE(folded, fits ? 12 : 0) << cluster.name << ", " << ranks;
    }
}

TEST(Simulation, OfClassesIsThatOfAllRanksWithSeveralChannels) {
  for (const Cluster& cluster : test::clusters())
    for (int channels : {2, 3}) compareWalks(cluster, 64, channels, {64, 4 << 20});
}

TEST(Simulation, OfClassesIsThatOfAllRanksWithManyRounds) {
  Cluster cluster = test::sharedCluster();
  cluster.messageBytes = 65536;
  for (int ranks : {32, 96}) compareWalks(cluster, ranks, 1, {1 << 24, 1 << 30});
}

class Thousand : public testing::TestWithParam<size_t> {};

TEST_P(Thousand, OfClassesIsThatOfAllRanks) {
  EXPECT_GE(compareWalks(test::clusters()[GetParam()], 1024, 1, {1 << 20}), 12);
}
INSTANTIATE_TEST_SUITE_P(Clusters, Thousand, testing::Range<size_t>(0, 3));

}  // namespace
}  // namespace tutti::collectives
