// The checker's word against data: the interpreter runs every plan, lanes chosen at random, and
// what it delivers is compared with sums made directly. Shapes take part: odd counts, empty chunks,
// many rounds.

#include <gtest/gtest.h>

#include <random>

#include "tests/collectives/interpreter.h"
#include "tests/collectives/plans.h"

namespace tutti::collectives {
namespace {

using test::Interpreter;
using test::programsOf;

void expectRight(const AlgorithmInfo& info, const PlanSpec& spec, uint64_t count, bool inPlace,
                 uint64_t seed, const std::vector<uint64_t>& uneven = {}) {
  const size_t slotBytes = std::max<uint32_t>(1, spec.messageChunks) * size_t{128};
  Interpreter run(spec, programsOf(info, spec),
                  {.count = count,
                   .uneven = uneven,
                   .slotBytes = slotBytes,
                   .inPlace = inPlace,
                   .dataSeed = seed,
                   .schedule = seed});
  ASSERT_TRUE(run.run()) << "stuck: " << spec.describe() << ", seed " << seed;
  EXPECT_FALSE(run.leftEarly()) << spec.describe() << ", seed " << seed;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    if (!run.hasOutput(rank)) continue;
    for (uint64_t i = 0; i < run.outputWords(rank); ++i)
      ASSERT_EQ(run.output(rank)[i], run.expected(rank, i))
          << spec.describe() << ", rank " << rank << ", element " << i << " of " << count
          << (inPlace ? ", in place" : "") << ", seed " << seed;
  }
}

TEST(Data, EveryPlanMovesWhatTheCheckerSaysItMoves) {
  const uint64_t seed = 20240607;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int channels : {1, 2})
      for (const AlgorithmInfo& info : registry().algorithms())
        for (const PlanSpec& spec : test::specsOf(info, ranks, channels)) {
          if (spec.root > 1 && spec.root < ranks - 1) continue;
          for (uint64_t count : {0ULL, 1ULL, 37ULL, 500ULL})
            for (bool inPlace : {false, true}) {
              if (inPlace && !spec.inPlaceSafe) continue;
              expectRight(info, spec, count, inPlace, seed + count);
              if (HasFatalFailure()) return;
            }
        }
}

TEST(Data, BlocksMayDifferInSize) {
  std::mt19937_64 random(20240608);
  int plans = 0;
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int channels : {1, 2})
      for (const AlgorithmInfo& info : registry().algorithms())
        for (const PlanSpec& spec : test::specsOf(info, ranks, channels)) {
          if (!spec.unevenSafe || (spec.root > 1 && spec.root < ranks - 1)) continue;
          ++plans;
          for (uint64_t most : {1ULL, 8ULL, 100ULL, 1000ULL}) {
            std::vector<uint64_t> blocks(static_cast<size_t>(ranks));
            for (uint64_t& words : blocks) words = random() % 3 == 0 ? 0 : random() % (most + 1);
            for (bool inPlace : {false, true}) {
              expectRight(info, spec, most, inPlace, random(), blocks);
              if (HasFatalFailure()) return;
            }
          }
        }
  EXPECT_GT(plans, 100);
}

TEST(Data, TheInterpreterSeesWhatTheCheckerRefuses) {
  AlgorithmInfo ring = registry().find(Algorithm::Ring);
  PlanSpec spec = *ring.spec({Collective::AllReduce, Protocol::Simple, 4, 0, 1});
  spec.minSlots = 1;
  EXPECT_FALSE(Interpreter(spec, programsOf(ring, spec), {.count = 500}).run())
      << "a circular wait went through";
  spec.minSlots = 2;
  ring.build = [good = ring.build](const PlanSpec& s, int rank) {
    Program program = good(s, rank);
    if (rank == 2) program.lanes[0].steps[1].sources.pop_back();  // its input is not added
    return program;
  };
  Interpreter broken(spec, programsOf(ring, spec), {.count = 500});
  ASSERT_TRUE(broken.run());
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < 500; ++i) wrong += broken.output(0)[i] != broken.expected(0, i);
  EXPECT_GT(wrong, 0U);

  PlanSpec barrier = spec;
  barrier.collective = Collective::Barrier;
  std::vector<Program> neighbours;  // only neighbours meet
  for (int rank = 0; rank < 4; ++rank)
    neighbours.push_back({{{0,
                            {{.targets = {plan::signal((rank + 1) % 4)}},
                             {.sources = {plan::signal((rank + 3) % 4)}}}}}});
  bool early = false;
  for (uint64_t schedule = 0; schedule < 10; ++schedule) {
    Interpreter meeting(barrier, neighbours, {.schedule = schedule});
    ASSERT_TRUE(meeting.run());
    early |= meeting.leftEarly();
  }
  EXPECT_TRUE(early) << "a barrier of neighbours held";
}

}  // namespace
}  // namespace tutti::collectives
