// The walk of classes against the walk of all ranks; both against times worked out by hand; the
// symmetries that algorithms claim against their programs.

#include "collectives/simulate.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>

#include <tutti/error.h>

#include "collectives/bounds.h"
#include "tests/collectives/clusters.h"
#include "tests/collectives/plans.h"
#include "tests/support/leftovers.h"

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
    Collective::Reduce,    Collective::AllToAll,  Collective::Barrier,       Collective::Gather,
    Collective::Scatter,   Collective::Scan};

/// Both walks of every plan for blocks of these sizes; returns how many were of fewer ranks.
int compareWalks(const Cluster& cluster, int ranks, int channels,
                 const std::vector<uint64_t>& sizes) {
  int folded = 0;
  for (const AlgorithmInfo& info : registry().algorithms())
    for (const Collective collective : kCompared) {
      const auto spec = specOn(cluster, info, collective, ranks, channels);
      if (!spec) continue;
      const Simulation classes(info, *spec, cluster);
      if (classes.ranksWalked() == static_cast<size_t>(ranks)) continue;  // the same walk
      ++folded;
      const Simulation all(info, *spec, cluster, Simulation::Walked::AllRanks);
      EXPECT_EQ(all.ranksWalked(), static_cast<size_t>(ranks));
      for (const uint64_t bytes : sizes) {
        EXPECT_EQ(all.refusal(bytes) + classes.refusal(bytes), "") << spec->describe();
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
    for (int ranks : {16, 24, 64, 96, 160}) {
      const int folded = compareWalks(cluster, ranks, 1, {0, 5000, 64 << 20});
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

Cluster anyCluster(std::mt19937_64& random) {
  const auto oneOf = [&](std::initializer_list<int> list) {
    return *(list.begin() + random() % list.size());
  };
  const auto between = [&](double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
  };
  Cluster cluster{.name = "any", .ranksPerHost = oneOf({1, 2, 3, 4, 8})};
  cluster.inside = {.microseconds = between(0.1, 5), .gigabytesPerSecond = between(1, 500)};
  if (oneOf({0, 0, 1}) == 1) cluster.inside.sharedGigabytesPerSecond = between(1, 600);
  cluster.nics = {.count = oneOf({1, cluster.ranksPerHost}),
                  .microseconds = between(0.1, 10),
                  .gigabytesPerSecond = between(1, 60)};
  if (oneOf({0, 1}) == 1)
    cluster.pods = {.hosts = oneOf({1, 2, 4}),
                    .microseconds = between(0, 3),
                    .oversubscription = between(0.3, 6)};
  cluster.work = {.stepMicroseconds = between(0.01, 1),
                  .copyGigabytesPerSecond = between(1, 2000),
                  .reduceGigabytesPerSecond = between(1, 2000)};
  cluster.messageBytes = uint64_t{65536} << oneOf({0, 2, 4, 6});
  return cluster;
}

TEST(Simulation, OfClassesIsThatOfAllRanksOnAnyCluster) {
  std::mt19937_64 random(tests::testSeed());
  int folded = 0;
  for (int k = 0; k < 40; ++k) {
    const Cluster cluster = anyCluster(random);
    const int ranks = cluster.ranksTogether() * static_cast<int>(2 + random() % 5);
    if (ranks > 72) continue;
    folded += compareWalks(cluster, ranks, static_cast<int>(1 + random() % 3),
                           {uint64_t{1} << random() % 24});
  }
  EXPECT_GE(folded, 100);
}

/// What a rank does itself takes no time, and a message none but on links: a microsecond for a
/// thousand bytes inside, and for as many on each of the host's two NICs.
Cluster onlyLinks() {
  return {.name = "links",
          .ranksPerHost = 4,
          .inside = {.microseconds = 1e-9, .gigabytesPerSecond = 1},
          .nics = {.count = 2, .microseconds = 1e-9, .gigabytesPerSecond = 1},
          .work = {.stepMicroseconds = 1e-9,
                   .copyGigabytesPerSecond = 1e9,
                   .reduceGigabytesPerSecond = 1e9},
          .messageBytes = 1 << 30};
}

double timeOf(const Cluster& cluster, Algorithm algorithm, Collective collective, int ranks,
              uint64_t bytes) {
  const AlgorithmInfo& info = registry().find(algorithm);
  const Simulation simulation(info, *specOn(cluster, info, collective, ranks, 1), cluster);
  EXPECT_EQ(simulation.refusal(bytes), "");
  return simulation.microseconds(bytes);
}

TEST(Simulation, LinksTakeTheirTime) {
  const Cluster cluster = onlyLinks();
  const auto oneShot = [](const Cluster& on, Collective collective, int ranks) {
    return timeOf(on, Algorithm::OneShot, collective, ranks, 4096);
  };
  // Inside a host each rank has a port of its own: to three others, from three others.
  EXPECT_NEAR(oneShot(cluster, Collective::AllReduce, 4), 3 * 4.096, 1e-3);
  EXPECT_NEAR(oneShot(cluster, Collective::Reduce, 4), 3 * 4.096, 1e-3);
  // Two hosts: to, or from, the four ranks of the other one by one NIC.
  EXPECT_NEAR(oneShot(cluster, Collective::Broadcast, 8), 4 * 4.096, 1e-3);
  EXPECT_NEAR(oneShot(cluster, Collective::Reduce, 8), 4 * 4.096, 1e-3);
  // A last host with one rank: four ranks send to it, and it to them.
  EXPECT_NEAR(oneShot(cluster, Collective::AllReduce, 5), 4 * 4.096, 1e-3);
  // A bus that is as slow as a port, and all twelve messages pass it.
  Cluster bus = cluster;
  bus.inside.sharedGigabytesPerSecond = 1;
  EXPECT_NEAR(oneShot(bus, Collective::AllReduce, 4), 12 * 4.096, 1e-3);
  // Two pods of two hosts. An uplink has a quarter of its pod's four NICs: 64 messages out of each.
  Cluster pods = cluster;
  pods.pods = {.hosts = 2, .microseconds = 0, .oversubscription = 4};
  EXPECT_NEAR(oneShot(pods, Collective::AllReduce, 16), 64 * 4.096, 1e-3);
  // From one rank to twelve on other hosts: its NIC is no wider than the uplink.
  EXPECT_NEAR(oneShot(pods, Collective::Broadcast, 16), 12 * 4.096, 1e-3);
  // Out of a pod and into it, from two others: half as wide, for sixteen messages. The root's first
  // four go to the other host of its pod.
  pods.pods.oversubscription = 8;
  EXPECT_NEAR(oneShot(pods, Collective::Broadcast, 24), (4 + 2 * 16) * 4.096, 1e-3);
  EXPECT_NEAR(oneShot(pods, Collective::Reduce, 24), 2 * 16 * 4.096, 1e-3);
  // A chain: fourteen links as wide as a NIC and an uplink, whose NICs behind it are wider.
  EXPECT_NEAR(timeOf(pods, Algorithm::Ring, Collective::Broadcast, 16, 4096), (14 + 2) * 4.096,
              1e-3);
}

TEST(Simulation, LatencyIsThatOfTheMessagesOnTheChain) {
  const Cluster cluster{.name = "latency",
                        .ranksPerHost = 4,
                        .inside = {.microseconds = 1, .gigabytesPerSecond = 1},
                        .nics = {.count = 1, .microseconds = 10, .gigabytesPerSecond = 1},
                        .pods = {.hosts = 2, .microseconds = 100},
                        .work = {.stepMicroseconds = 1e-9}};
  const auto ring = [&](int ranks) {
    return timeOf(cluster, Algorithm::Ring, Collective::Broadcast, ranks, 0);
  };
  EXPECT_NEAR(ring(4), 3, 1e-6);
  EXPECT_NEAR(ring(8), 6 + 10, 1e-6);
  EXPECT_NEAR(ring(9), 6 + 10 + 110, 1e-6);
  EXPECT_NEAR(ring(32), 24 + 4 * 10 + 3 * 110, 1e-6);
}

TEST(Simulation, RefusesASymmetryThatDoesNotHold) {
  const Cluster cluster = test::railCluster();
  for (const Algorithm algorithm : {Algorithm::DoubleTree, Algorithm::Recursive}) {
    AlgorithmInfo info = registry().find(algorithm);
    info.symmetry = [](const PlanSpec& spec) { return Symmetry::shift(spec.ranks, 1); };
    const PlanSpec spec = *specOn(cluster, info, Collective::Broadcast, 32, 1);
    try {
      const Simulation simulation(info, spec, cluster);
      ADD_FAILURE() << spec.describe();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Internal);
    }
  }
}

/// In each pod of podCluster() the first rank of host 3 takes two messages, which meet at its NIC
/// at the same time: one from host 2, and one from host 1 of the next pod, which is later by the
/// way between pods. In one step, or the one from near by first.
AlgorithmInfo twoThatMeet(bool inOneStep) {
  AlgorithmInfo info = registry().find(Algorithm::Ring);
  info.build = [inOneStep](const PlanSpec& spec, int rank) {
    const auto at = [&](int host) { return (rank / 32 * 32 + 8 * host + spec.ranks) % spec.ranks; };
    const plan::Step send{.sources = {plan::local(plan::Buffer::In, 0)}};
    plan::Lane lane;
    const auto sendTo = [&](int to) {
      lane.steps.push_back(send);
      lane.steps.back().targets = {plan::channel(to, 0)};
    };
    const auto take = [&](std::vector<Port> from) {
      lane.steps.push_back({.sources = from, .targets = {plan::local(plan::Buffer::Out, 0)}});
      if (from.size() > 1) lane.steps.back().fold = plan::Fold::Listed;
    };
    const Port nearBy = plan::channel(at(2), 0), farAway = plan::channel(at(5), 0);
    if (rank == at(2)) sendTo(at(3));
    if (rank == at(1)) sendTo(at(-1));
    if (rank == at(3) && inOneStep) take({nearBy, farAway});
    if (rank == at(3) && !inOneStep) take({nearBy}), take({farAway});
    return Program{{lane}};
  };
  info.symmetry = [](const PlanSpec& spec) { return Symmetry::shift(spec.ranks, 32); };
  return info;
}

TEST(Simulation, ServesMessagesThatMeetAlikeEverywhere) {
  const Cluster cluster = test::podCluster();
  const double bytes = 1 << 20, onNic = bytes / 45e3;
  const auto time = [&](bool inOneStep, Simulation::Walked walked) {
    const AlgorithmInfo info = twoThatMeet(inOneStep);
    PlanSpec spec = *specOn(cluster, info, Collective::AllReduce, 128, 1);
    spec.divisions = 1;
    return Simulation(info, spec, cluster, walked).microseconds(1 << 20);
  };
  const double sent = 0.3 + bytes / 1300e3, copied = sent, added = 2 * 0.3 + 2 * bytes / 1900e3;
  for (const auto walked : {Simulation::Walked::Classes, Simulation::Walked::AllRanks}) {
    // The one with the longer way goes first, and both are there at the same time or so.
    EXPECT_NEAR(time(true, walked), sent + std::max(onNic + 4 + 1.25, 2 * onNic + 4) + added, 1e-6);
    // The one that is taken first goes first.
    EXPECT_NEAR(time(false, walked), sent + 2 * onNic + 4 + 1.25 + copied, 1e-6);
  }
}

TEST(Simulation, SaysWhatItCannotDo) {
  const Cluster cluster = test::podCluster();
  const SimulationLimits limits{.operands = 10'000, .events = 10'000, .ranksBuiltFromHosts = 64};
  const auto refusal = [&](Algorithm algorithm, Collective collective, int ranks, uint64_t bytes) {
    const AlgorithmInfo& info = registry().find(algorithm);
    return Simulation(info, *specOn(cluster, info, collective, ranks, 1), cluster,
                      Simulation::Walked::Classes, limits)
        .refusal(bytes);
  };
  EXPECT_EQ(refusal(Algorithm::TwoShot, Collective::Broadcast, 64, 1024),
            "more than 10000 operands of steps, and no two ranks are alike");
  EXPECT_EQ(refusal(Algorithm::Ring, Collective::AllReduce, 72, 1024),
            "more than 10000 operands of steps, and no two ranks are alike where 32 share links");
  EXPECT_EQ(refusal(Algorithm::Ring, Collective::AllReduce, 96, 1024),
            "more than 10000 operands of steps");
  EXPECT_EQ(refusal(Algorithm::Hierarchical, Collective::Broadcast, 64, 1024), "");
  EXPECT_EQ(refusal(Algorithm::Hierarchical, Collective::Broadcast, 72, 1024),
            "72 programs that each follow from all hosts, and no two ranks are alike");
  // 32 ranks send and receive; of 63 messages of each, 7 pass two links, 24 two and 32 four.
  EXPECT_EQ(refusal(Algorithm::OneShot, Collective::AllReduce, 64, 4096), "");
  EXPECT_EQ(refusal(Algorithm::OneShot, Collective::AllReduce, 64, 1 << 23),
            "more than 10000 steps of 32 ranks and messages over links");
  EXPECT_EQ(refusal(Algorithm::Recursive, Collective::AllReduce, 262144, 1024),
            "a message of 131072 chunks needs 8388608 bytes and has 4194304 at most");
}

TEST(Bounds, AreBelowEveryPlan) {
  for (const Cluster& cluster : test::clusters())
    for (int ranks : {1, 2, 3, 5, 8, 9, 16, 24, 32, 64, 72, 128})
      for (const AlgorithmInfo& info : registry().algorithms())
        for (int c = 0; c < plan::kCollectiveCount; ++c) {
          const auto collective = static_cast<Collective>(c);
          const auto spec = specOn(cluster, info, collective, ranks, 1);
          if (!spec) continue;
          const Simulation simulation(info, *spec, cluster);
          for (const uint64_t bytes : {0, 64, 1 << 16, 64 << 20}) {
            const Bounds bounds = boundsOf(collective, ranks, bytes, cluster);
            EXPECT_GE(simulation.microseconds(bytes), bounds.microseconds() * (1 - 1e-12))
                << cluster.name << ", " << spec->describe() << ", " << bytes;
          }
        }
}

TEST(Bounds, OfLatencyAreReachedWhereAStepCostsNothing) {
  Cluster cluster = test::railCluster();
  cluster.work.stepMicroseconds = 1e-6;
  // Everybody tells everybody.
  EXPECT_NEAR(boundsOf(Collective::AllReduce, 8, 0, cluster).latencyMicroseconds, 1.5, 1e-4);
  EXPECT_NEAR(boundsOf(Collective::AllReduce, 16, 0, cluster).latencyMicroseconds, 4, 1e-4);
  EXPECT_EQ(boundsOf(Collective::AllReduce, 1, 1 << 20, cluster).microseconds(), 0);
}

TEST(Bounds, OfLatencyFollowThePostalModel) {
  Cluster cluster = test::railCluster();
  cluster.inside.microseconds = 2;
  cluster.work.stepMicroseconds = 1;
  // The root's messages are there at 3, 4, 5, ...; who is told at 3 has its own there at 7, 8, ...;
  // and the last one is taken within a microsecond.
  const double at[] = {0, 0, 4, 5, 6, 7, 8, 8, 9};
  for (int ranks = 2; ranks <= 8; ++ranks)
    EXPECT_DOUBLE_EQ(boundsOf(Collective::Broadcast, ranks, 0, cluster).latencyMicroseconds,
                     at[ranks])
        << ranks;
}

TEST(Bounds, OfBandwidthAreThoseOfTheNarrowestCut) {
  const auto bound = [](const Cluster& cluster, Collective collective, int ranks) {
    return boundsOf(collective, ranks, 1'000'000, cluster).bandwidthMicroseconds;
  };
  const Cluster rails = test::railCluster(), pods = test::podCluster();
  EXPECT_DOUBLE_EQ(bound(rails, Collective::AllReduce, 8), 2 * 7 / 8.0 * 1000 / 400);
  EXPECT_DOUBLE_EQ(bound(rails, Collective::AllReduce, 64), 2 * 7 / 8.0 * 1000 / 360);
  EXPECT_DOUBLE_EQ(bound(rails, Collective::Broadcast, 64), 1000 / 360.0);
  // A rank's port and NIC are narrower than its host's NICs where blocks are its own.
  EXPECT_DOUBLE_EQ(bound(rails, Collective::AllGather, 16), 15 * 1000 / 445.0);
  EXPECT_DOUBLE_EQ(bound(rails, Collective::AllToAll, 64), 8 * 56 * 1000 / 360.0);
  // Sixteen NICs to a pod, a third of which leads out of it.
  EXPECT_DOUBLE_EQ(bound(pods, Collective::AllToAll, 64), 32 * 32 * 1000 / 240.0);
  EXPECT_DOUBLE_EQ(bound(pods, Collective::Barrier, 64), 0);
}

class LargeSimulation : public testing::TestWithParam<size_t> {};

TEST_P(LargeSimulation, OfClassesIsThatOfAllRanks) {
  EXPECT_GE(compareWalks(test::clusters()[GetParam()], 1024, 1, {1 << 20}), 12);
}
INSTANTIATE_TEST_SUITE_P(Clusters, LargeSimulation, testing::Range<size_t>(0, 3));

}  // namespace
}  // namespace tutti::collectives
