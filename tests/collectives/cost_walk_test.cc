// The walk against times that can be worked out by hand.

#include "collectives/cost_walk.h"

#include <gtest/gtest.h>

#include "tests/collectives/plans.h"

namespace tutti::collectives {
namespace {

using topology::Topology;
using topology::Tuning;

/// Only messages take time.
Tuning latencyOnly() {
  return {.messageMicroseconds = 1,
          .callMicroseconds = 0,
          .stepMicroseconds = 0,
          .attachMicroseconds = 0,
          .entryMicroseconds = 0};
}

TEST(CostWalk, WithoutDataItIsTheLongestChainOfMessages) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (const AlgorithmInfo& info : registry().algorithms())
      for (const PlanSpec& spec : test::specsOf(info, ranks, 1, test::manyPlacements(ranks))) {
        const double time =
            predictMicroseconds(info, spec, 0, {.ranks = ranks, .cores = ranks}, latencyOnly());
        EXPECT_DOUBLE_EQ(time, info.cost(spec).steps) << spec.describe();
      }
}

TEST(CostWalk, AttachedOperandsAreReadBeforeTheyAreFolded) {
  const Tuning tuning{.messageMicroseconds = 0,
                      .callMicroseconds = 0,
                      .stepMicroseconds = 0,
                      .mappedGigabytesPerSecond = 4,
                      .attachMicroseconds = 3,
                      .attachGigabytesPerSecond = 2,
                      .entryMicroseconds = 0};
  const auto time = [&](Collective collective) {
    const AlgorithmInfo& info = registry().find(Algorithm::OneShot);
    const auto spec = info.spec({collective, Protocol::Attached, 2, 0, 1});
    return predictMicroseconds(info, spec.value(), 64'000, {.ranks = 2, .cores = 2}, tuning);
  };
  const double read = 3 + 64 / 2.0, touched = 64 / 4.0;
  EXPECT_DOUBLE_EQ(time(Collective::Broadcast), read);
  EXPECT_DOUBLE_EQ(time(Collective::AllGather), read + 2 * touched);  // its own block is mapped
  EXPECT_DOUBLE_EQ(time(Collective::ReduceScatter), read + 3 * touched);
}

TEST(CostWalk, ARingOfFourSpendsSevenCopiesAndSixOperands) {
  const Tuning tuning{.messageMicroseconds = 0,
                      .callMicroseconds = 0,
                      .stepMicroseconds = 0,
                      .copyGigabytesPerSecond = 4,
                      .reduceGigabytesPerSecond = 2};
  const AlgorithmInfo& info = registry().find(Algorithm::Ring);
  const PlanSpec spec = *info.spec({Collective::AllReduce, Protocol::Simple, 4, 0, 1});
  // Per rank and chunk: send 1 copy; 2 steps fold 2 operands each; the last fold has 2 operands and
  // a second target, 1 copy; 2 steps copy to 2 targets; 1 copies to 1. All ranks keep step.
  const double chunk = 4096;
  EXPECT_DOUBLE_EQ(predictMicroseconds(info, spec, 4 * 4096, {.ranks = 4, .cores = 4}, tuning),
                   7 * chunk / 4e3 + 6 * chunk / 2e3);
}

TEST(CostWalk, RoundsBeyondTheWalkedGoOnAlike) {
  const AlgorithmInfo& info = registry().find(Algorithm::Ring);
  const PlanSpec spec = *info.spec({Collective::Broadcast, Protocol::Simple, 4, 0, 1});
  const Topology topology{.ranks = 4, .cores = 4, .slotBytes = 4096};
  const auto time = [&](uint64_t rounds) {
    return predictMicroseconds(info, spec, rounds * 4096, topology, {});
  };
  EXPECT_NEAR(time(100) - time(99), time(20) - time(19), 1e-9);
  // A pipeline: a further round costs less than a first one.
  EXPECT_LT(time(20) - time(19), 0.9 * time(1));
}

TEST(CostWalk, RanksTakeTurnsOnCores) {
  const Tuning tuning{.messageMicroseconds = 0,
                      .callMicroseconds = 0,
                      .stepMicroseconds = 0,
                      .copyGigabytesPerSecond = 4,
                      .yieldMicroseconds = 5};
  const AlgorithmInfo& info = registry().find(Algorithm::OneShot);
  const PlanSpec spec = *info.spec({Collective::Broadcast, Protocol::Simple, 4, 0, 1});
  const auto time = [&](int cores) {
    return predictMicroseconds(info, spec, 4096, {.ranks = 4, .cores = cores}, tuning);
  };
  const double copy = 4096 / 4e3;
  // The root copies to three ranks, and nobody keeps it from its core; then each of these copies
  // once. The root's own output is taken to be its input.
  EXPECT_DOUBLE_EQ(time(4), 4 * copy);
  // Of two cores one is handed to the root; what it sends is seen two hand-overs later; then both
  // go to a rank each, and one to the last rank. Of ranks that share a core each has it in its
  // hand.
  EXPECT_DOUBLE_EQ(time(2), 5 * copy + (3 * 2 + 2) * 5);
  EXPECT_DOUBLE_EQ(time(1), 6 * copy + (4 * 4 + 2) * 5);
}

TEST(CostWalk, OfTooManyRanksToWalkTwiceAsManyOnACoreTakeTwiceTheWork) {
  const Tuning tuning{.messageMicroseconds = 0, .callMicroseconds = 0, .yieldMicroseconds = 0};
  const AlgorithmInfo& info = registry().find(Algorithm::TwoShot);
  const PlanSpec spec = *info.spec({Collective::AllReduce, Protocol::Simple, 32, 0, 1});
  const auto time = [&](int cores) {
    return predictMicroseconds(info, spec, 1 << 16, {.ranks = 32, .cores = cores}, tuning);
  };
  EXPECT_DOUBLE_EQ(time(16), 2 * time(32));
}

TEST(CostWalk, LanesOfOneRankTakeTurns) {
  // Two ranks, double tree: the root folds 2 operands of every byte and copies it once more, in two
  // lanes. Nothing else takes time, so this is the least that a long block can take.
  const Tuning tuning{.messageMicroseconds = 0,
                      .callMicroseconds = 0,
                      .stepMicroseconds = 0,
                      .copyGigabytesPerSecond = 4,
                      .reduceGigabytesPerSecond = 2};
  const AlgorithmInfo& info = registry().find(Algorithm::DoubleTree);
  const PlanSpec spec = *info.spec({Collective::AllReduce, Protocol::Simple, 2, 0, 1});
  const uint64_t bytes = 1 << 24;
  const double root = bytes * (2 / 2e3 + 1 / 4e3);
  const double time = predictMicroseconds(info, spec, bytes, {.ranks = 2, .cores = 2}, tuning);
  EXPECT_GE(time, 0.999 * root);
  EXPECT_LE(time, 1.05 * root);
}

TEST(CostWalk, ManyRanksAreEstimatedNearTheWalk) {
  // 16 ranks are walked and 17 estimated; neighbours must not differ by more than the estimate's
  // coarseness, or choices would jump. Powers of two are special for Recursive, hence the room.
  for (const AlgorithmInfo& info : registry().algorithms())
    for (const PlanSpec& walked : test::specsOf(info, 16, 1)) {
      if (walked.root > 0 || !walked.hosts.empty()) continue;
      const auto estimated = info.spec({walked.collective, walked.protocol, 17, 0, 1});
      for (uint64_t bytes : {64ULL, 1ULL << 16, 1ULL << 24}) {
        const double a = predictMicroseconds(info, walked, bytes, {.ranks = 16, .cores = 64}, {});
        const double b =
            predictMicroseconds(info, *estimated, bytes, {.ranks = 17, .cores = 64}, {});
        EXPECT_LT(b, 3 * a) << walked.describe() << ", " << bytes;
        EXPECT_GT(b, a / 3) << walked.describe() << ", " << bytes;
      }
    }
}

TEST(CostWalk, GrowsWithTheBlock) {
  for (int ranks : {2, 5, 8, 40})
    for (const bool shared : {false, true})
      for (const AlgorithmInfo& info : registry().algorithms())
        for (const PlanSpec& spec : test::specsOf(info, ranks, 1)) {
          if (spec.collective == Collective::Barrier) continue;
          const Topology topology{.ranks = ranks, .cores = shared ? 2 : ranks};
          double before = 0;
          for (uint64_t bytes = 1024; bytes <= 1ULL << 34; bytes *= 4) {
            const double now = predictMicroseconds(info, spec, bytes, topology, {});
            // On shared cores longer steps may come in an order with fewer hand-overs.
            EXPECT_GT(now, shared ? 0.8 * before : before)
                << spec.describe() << ", " << bytes << " bytes";
            before = now;
          }
        }
}

Topology twoHosts(int each) {
  Topology topology{.ranks = 2 * each, .cores = each};
  for (int rank = 0; rank < 2 * each; ++rank) topology.hostOf.push_back(rank / each);
  return topology;
}

/// Only what is between hosts takes time: nothing, or a microsecond for a thousand bytes.
Tuning networkOnly(double microseconds) {
  return {.messageMicroseconds = 0,
          .callMicroseconds = 0,
          .stepMicroseconds = 0,
          .copyGigabytesPerSecond = 1e6,
          .reduceGigabytesPerSecond = 1e6,
          .networkMicroseconds = microseconds,
          .networkGapMicroseconds = 0,
          .networkGigabytesPerSecond = 1};
}

PlanSpec specOn(const Topology& topology, Algorithm algorithm, Collective collective) {
  return *registry().find(algorithm).spec(
      {collective, Protocol::Simple, topology.ranks, 0, 1, plan::hostsInOrder(topology.hostOf)});
}

double timeOf(const Topology& topology, Algorithm algorithm, Collective collective, uint64_t bytes,
              const Tuning& tuning) {
  return predictMicroseconds(registry().find(algorithm), specOn(topology, algorithm, collective),
                             bytes, topology, tuning);
}

TEST(CostWalkOfHosts, WithoutDataItIsTheMessagesBetweenHostsOnTheChain) {
  const Topology topology = twoHosts(4);
  for (const AlgorithmInfo& info : registry().algorithms())
    for (const PlanSpec& spec : test::specsOf(info, 8, 1, {topology.hostOf})) {
      const double time = predictMicroseconds(info, spec, 0, topology, networkOnly(1));
      EXPECT_DOUBLE_EQ(time, info.cost(spec).hostSteps) << spec.describe();
    }
  // Twice around the ring less two messages, and of eight two cross: 0-3 and 4-7 are the hosts.
  EXPECT_DOUBLE_EQ(timeOf(topology, Algorithm::Ring, Collective::AllReduce, 0, networkOnly(1)), 4);
  // Distances 1 and 2 stay inside, 4 crosses, on both ways.
  EXPECT_DOUBLE_EQ(timeOf(topology, Algorithm::Recursive, Collective::AllReduce, 0, networkOnly(1)),
                   2);
}

TEST(CostWalkOfHosts, RanksOfAHostShareItsLink) {
  // One shot: each of the four ranks of a host sends its block to the four others over one link.
  // What goes the other way does not matter.
  const uint64_t bytes = 4096;
  EXPECT_NEAR(timeOf(twoHosts(4), Algorithm::OneShot, Collective::AllReduce, bytes, networkOnly(0)),
              16 * bytes / 1e3, 0.5);
  // Broadcast sends half as many blocks over it, from one rank.
  EXPECT_NEAR(timeOf(twoHosts(4), Algorithm::OneShot, Collective::Broadcast, bytes, networkOnly(0)),
              4 * bytes / 1e3, 0.5);
}

TEST(CostWalkOfHosts, AMessageTakesItsGapOfALinkBesideItsBytes) {
  Tuning tuning = networkOnly(0);
  tuning.networkGapMicroseconds = 3;
  // One shot again: sixteen messages pass each host's link, of no bytes, and of four microseconds.
  EXPECT_DOUBLE_EQ(timeOf(twoHosts(4), Algorithm::OneShot, Collective::AllReduce, 0, tuning), 48);
  EXPECT_NEAR(timeOf(twoHosts(4), Algorithm::OneShot, Collective::AllReduce, 4096, tuning),
              16 * (4.096 + 3), 0.5);
  // So does one that ranks too many to be walked send: 36 to each of 36 on the other host.
  EXPECT_NEAR(timeOf(twoHosts(36), Algorithm::OneShot, Collective::AllReduce, 0, tuning),
              36 * 36 * 3, 0.01 * 36 * 36 * 3);
}

TEST(CostWalkOfHosts, BothLinksOfAMessageAreUsedAtOnce) {
  // Two messages of four kilobytes, one after another, pass the second link while they leave.
  const Topology topology{.ranks = 3, .cores = 3, .hostOf = {0, 1, 1}};
  EXPECT_NEAR(timeOf(topology, Algorithm::OneShot, Collective::Broadcast, 4096, networkOnly(0)),
              2 * 4.096, 0.1);
  // To a host each: the first link is what takes time.
  const Topology apart{.ranks = 3, .cores = 3, .hostOf = {0, 1, 2}};
  EXPECT_NEAR(timeOf(apart, Algorithm::OneShot, Collective::Broadcast, 4096, networkOnly(0)),
              2 * 4.096, 0.1);
  // From a host each: the last.
  EXPECT_NEAR(timeOf(apart, Algorithm::OneShot, Collective::Reduce, 4096, networkOnly(0)),
              2 * 4.096, 0.1);
}

TEST(CostWalkOfHosts, AHierarchicalAllReduceNeedsNoMoreThanItsLinks) {
  // Twice half of the block crosses each link: with rounds enough all else hides behind it.
  const uint64_t bytes = 1 << 26;
  Tuning tuning;
  tuning.networkGapMicroseconds = 0;
  const double least = bytes / (tuning.networkGigabytesPerSecond * 1e3);
  const double time =
      timeOf(twoHosts(4), Algorithm::Hierarchical, Collective::AllReduce, bytes, tuning);
  EXPECT_GE(time, least);
  EXPECT_LE(time, 1.02 * least);
}

TEST(CostWalkOfHosts, ManyRanksAreEstimatedNearTheWalk) {
  // 64 ranks are walked, 72 estimated: eight and nine hosts of eight. How much of a tree's longest
  // chain is between hosts is a guess, hence the room.
  const auto hosts = [](int count) {
    Topology topology{.ranks = 8 * count, .cores = 8};
    for (int rank = 0; rank < 8 * count; ++rank) topology.hostOf.push_back(rank / 8);
    return topology;
  };
  const Topology walked = hosts(8), estimated = hosts(9);
  for (const AlgorithmInfo& info : registry().algorithms())
    for (int c = 0; c < plan::kCollectiveCount; ++c) {
      const auto collective = static_cast<Collective>(c);
      if (!info.spec({collective, Protocol::Simple, 64, 0, 1, walked.hostOf})) continue;
      for (uint64_t bytes : {64ULL, 1ULL << 16, 1ULL << 24}) {
        const double a = timeOf(walked, info.algorithm, collective, bytes, {});
        const double b = timeOf(estimated, info.algorithm, collective, bytes, {});
        const std::string where = specOn(walked, info.algorithm, collective).describe();
        EXPECT_LT(b, 4 * a) << where << ", " << bytes;
        EXPECT_GT(b, a / 4) << where << ", " << bytes;
      }
    }
}

/// Ring of four in the order of ranks, each of which sends three messages of `chunk` bytes.
double gatherByRing(double chunk, std::vector<std::pair<int, int>> apart) {
  const Tuning tuning{.messageMicroseconds = 1,
                      .callMicroseconds = 0,
                      .stepMicroseconds = 0,
                      .copyGigabytesPerSecond = 1e6,
                      .hostMemoryMicroseconds = 7,
                      .hostMemoryGigabytesPerSecond = 2};
  const AlgorithmInfo& info = registry().find(Algorithm::Ring);
  const PlanSpec spec = *info.spec({Collective::AllGather, Protocol::Simple, 4, 0, 1});
  const Topology topology{.ranks = 4, .cores = 4, .slotBytes = 1 << 20, .apart = std::move(apart)};
  return predictMicroseconds(info, spec, static_cast<uint64_t>(chunk), topology, tuning);
}

TEST(CostWalkOfRanksApart, MessagesPassTheLinksOfBothToTheHost) {
  constexpr double kChunk = 64 << 10, kLink = kChunk / 2e3;
  EXPECT_NEAR(gatherByRing(kChunk, {}), 3, 1);
  // Both links at once, and what a message takes to be seen; one message of a rank after another.
  const double all = gatherByRing(kChunk, {{0, 1}, {0, 3}, {1, 2}, {2, 3}});
  EXPECT_NEAR(all, 3 * (kLink + 7), 1);
  // One such edge of the ring: its messages are all of those that pass it.
  EXPECT_GT(gatherByRing(kChunk, {{1, 2}}), kLink + 7);
  EXPECT_LT(gatherByRing(kChunk, {{1, 2}}), all + 0.001);
  // No edge of the ring.
  EXPECT_DOUBLE_EQ(gatherByRing(kChunk, {{0, 2}, {1, 3}}), gatherByRing(kChunk, {}));
}

TEST(CostWalkOfRanksApart, ManyRanksAreEstimatedWithTheirLinks) {
  const AlgorithmInfo& info = registry().find(Algorithm::Ring);
  const PlanSpec spec = *info.spec({Collective::AllGather, Protocol::Simple, 72, 0, 1});
  Topology topology{.ranks = 72, .cores = 72, .slotBytes = 1 << 20};
  const double joined = predictMicroseconds(info, spec, 1 << 20, topology, {});
  for (int rank = 0; rank + 1 < 72; ++rank) topology.apart.emplace_back(rank, rank + 1);
  const Tuning slow{.hostMemoryGigabytesPerSecond = 0.5};
  EXPECT_GT(predictMicroseconds(info, spec, 1 << 20, topology, slow), 2 * joined);
}

}  // namespace
}  // namespace tutti::collectives
