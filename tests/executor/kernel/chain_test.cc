// Several calls of a rank in one launch: each begins when all lanes of the rank have left the one
// before, so the results are those of launches one after the other.

#include <gtest/gtest.h>

#include "collectives/algorithms.h"
#include "tests/executor/kernel/failures.h"

namespace tutti::tests {
namespace {

constexpr int kRanks = 3;
constexpr uint64_t kCount = 3000;

DeviceRanksOptions optionsOf(int devices) {
  return {.ranks = kRanks,
          .devices = devices,
          .layout = {.rings = {.channels = 4, .slotCount = 2, .slotBytes = 2048},
                     .lowLatencyBytes = 2048}};
}

/// Sums of whole numbers over all ranks, in place, by plans and in slices of which each call has
/// other lanes and links, and takes what the one before has made.
class Sums {
 public:
  explicit Sums(DeviceRanks& ranks, Wire wire, uint64_t seed) : ranks_(ranks) {
    Call call = ringCall(kRanks, kCount);
    call.type = DataType::Int32;
    call.inPlace = true;
    ranks.begin(call, wire, seed);
    const plan::PlanSpec shots = planOf(plan::Algorithm::TwoShot, plan::Collective::AllReduce,
                                        plan::Protocol::Simple, kRanks);
    for (int r = 0; r < kRanks; ++r)
      shots_.push_back(ranks.executor(r).prepareProgram(shots, collectives::build(shots, r)));
  }

  std::vector<DeviceLaunch> of(int rank) const {
    DeviceLaunch ring = ranks_.launchOf(rank), shot = ring;
    shot.plan = shots_[static_cast<size_t>(rank)].get();
    std::vector<DeviceLaunch> calls{ring, shot, ring, shot, ring};
    const uint32_t slices[] = {1, 2, 4, 1, 2};
    for (size_t i = 0; i < calls.size(); ++i) {
      calls[i].slices = slices[i];
      calls[i].call.callHash = 100 + static_cast<uint32_t>(i);
    }
    return calls;
  }
  static constexpr uint64_t kCalls = 5;

 private:
  DeviceRanks& ranks_;
  std::vector<std::unique_ptr<KernelPlan>> shots_;
};

void launchEach(DeviceRanks& ranks, const Sums& sums, int rank) {
  for (const DeviceLaunch& call : sums.of(rank))
    launchOn(ranks.executor(rank), call, ranks.stream(rank));
}

void launchAsOne(DeviceRanks& ranks, const Sums& sums, int rank) {
  std::vector<RankCall> all;
  for (const DeviceLaunch& call : sums.of(rank)) all.push_back({&ranks.executor(rank), call});
  launchMerged(all, ranks.stream(rank));
}

/// What is in the ranks' buffers when all have ended.
std::vector<Buffer> results(DeviceRanks& ranks) {
  std::vector<Buffer> all;
  for (int r = 0; r < kRanks; ++r) ranks.wait(r);
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_FALSE(ranks.executor(r).failure()) << failureOf(ranks, r).what();
    EXPECT_EQ(ranks.executor(r).completed(), Sums::kCalls);
    EXPECT_EQ(ranks.executor(r).collectivesEnded(), Sums::kCalls);
    all.push_back(ranks.buffer(r).download());
  }
  return all;
}

class Chains : public testing::TestWithParam<Wire> {
 protected:
  /// Of launches one after the other.
  static std::vector<Buffer> expected(uint64_t seed) {
    DeviceRanks ranks(optionsOf(kRanks));
    const Sums sums(ranks, GetParam(), seed);
    for (int r = 0; r < kRanks; ++r) launchEach(ranks, sums, r);
    auto found = results(ranks);
    EXPECT_NE(found[0], memoryOf(ringCall(kRanks, kCount), 0, seed).bytes);
    return found;
  }
};

TEST_P(Chains, CallsFollowEachOther) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    DeviceRanks ranks(optionsOf(kRanks));
    const Sums sums(ranks, GetParam(), seed);
    for (int r = 0; r < kRanks; ++r) launchAsOne(ranks, sums, r);
    EXPECT_EQ(results(ranks), expected(seed));
  }
}

TEST_P(Chains, OtherRanksMayLaunchEach) {
  DeviceRanks ranks(optionsOf(kRanks));
  const Sums sums(ranks, GetParam(), 4);
  launchAsOne(ranks, sums, 0);
  launchEach(ranks, sums, 1);
  launchAsOne(ranks, sums, 2);
  EXPECT_EQ(results(ranks), expected(4));
}

// All calls of all ranks, in the order in which a group has them.
TEST_P(Chains, RanksThatShareAStreamFollowTheirOwnCalls) {
  DeviceRanksOptions options = optionsOf(1);
  options.executor.blocks = 4;
  DeviceRanks ranks(options);
  const Sums sums(ranks, GetParam(), 5);
  std::vector<RankCall> all;
  for (uint64_t i = 0; i < Sums::kCalls; ++i)
    for (int r = 0; r < kRanks; ++r) all.push_back({&ranks.executor(r), sums.of(r)[i]});
  launchMerged(all, ranks.stream(0));
  EXPECT_EQ(results(ranks), expected(5));
}

TEST_P(Chains, Replay) {
  DeviceRanks ranks(optionsOf(kRanks));
  const Sums sums(ranks, GetParam(), 6);
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < kRanks; ++r)
    graphs.push_back(ranks.capture(r, [&] { launchAsOne(ranks, sums, r); }));
  for (int r = 0; r < kRanks; ++r) TUTTI_CUDA(cudaGraphLaunch(graphs[r], ranks.stream(r)));
  EXPECT_EQ(results(ranks), expected(6));
  for (cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
}

// The calls before are whole, those behind never begin, and all ranks name it.
TEST_P(Chains, AMismatchEndsAllBehindIt) {
  DeviceRanks ranks(optionsOf(kRanks));
  const Sums sums(ranks, GetParam(), 7);
  for (int r = 0; r < kRanks; ++r) {
    std::vector<RankCall> all;
    for (const DeviceLaunch& call : sums.of(r)) all.push_back({&ranks.executor(r), call});
    if (r == 1) all[2].launch.call.callHash = 999;
    launchMerged(all, ranks.stream(r));
  }
  expectNames(firstOf(ranks, ErrorCode::Mismatch), {"in operation 2 of", "ranks disagree"});
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(ranks.executor(r).completed(), 2U);
}

TEST_P(Chains, ThatAreDiscardedTouchNothing) {
  DeviceRanks ranks(optionsOf(kRanks));
  const Sums sums(ranks, GetParam(), 9);
  std::vector<Buffer> before;
  for (int r = 0; r < kRanks; ++r) before.push_back(ranks.buffer(r).download());
  discard(ranks, [&](int r) { launchAsOne(ranks, sums, r); });
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(ranks.buffer(r).download(), before[r]) << r;
}

// A lane that waits for the end of its call sees that another one has given up already in the next:
// it is to be counted there, or nobody knows when the last has left.
TEST(Chain, LanesAreLeftByAllOfTheCallThatFails) {
  for (int turn = 0; turn < 60; ++turn) {
    DeviceRanksOptions options = optionsOf(kRanks);
    options.executor.looksEvery = 1;
    DeviceRanks ranks(options);
    const Sums sums(ranks, Wire::Simple, 8);
    for (int r = 0; r < kRanks; ++r) {
      DeviceLaunch call = sums.of(r)[2];
      call.slices = 4;
      std::vector<RankCall> all;
      for (const uint32_t hash : {100U, 101U, r == 1 ? 999U : 102U, 103U}) {
        call.call.callHash = hash;
        all.push_back({&ranks.executor(r), call});
      }
      launchMerged(all, ranks.stream(r));
    }
    for (int r = 0; r < kRanks; ++r) ranks.wait(r);
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_TRUE(ranks.executor(r).failure());
      ASSERT_FALSE(ranks.executor(r).isRunning()) << "rank " << r << ", turn " << turn;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, Chains, testing::ValuesIn(kWires));

// Of mapped plans, too, each of which tells where buffers are; and lanes that have no part in a
// call wait for those that have.
TEST(Chain, OfMappedPlans) {
  DeviceRanks ranks(optionsOf(kRanks));
  Call call = mappedCall(kRanks, kCount);
  call.type = DataType::Int32;
  ranks.begin(call, Wire::Simple, 8);
  std::vector<Buffer> once = ranks.run(call, Wire::Simple, 8);
  for (int r = 0; r < kRanks; ++r) {
    DeviceLaunch first = ranks.launchOf(r), again = first;
    again.slices = 4;
    const RankCall all[] = {
        {&ranks.executor(r), first}, {&ranks.executor(r), again}, {&ranks.executor(r), first}};
    launchMerged(all, ranks.stream(r));
  }
  for (int r = 0; r < kRanks; ++r) ranks.wait(r);
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_FALSE(ranks.executor(r).failure()) << failureOf(ranks, r).what();
    EXPECT_EQ(ranks.executor(r).completed(), 4U);
    EXPECT_EQ(ranks.buffer(r).download(), once[static_cast<size_t>(r)]);
  }
}

TEST(Chain, HasSixteenCallsAtMost) {
  DeviceRanks ranks({.ranks = 2});
  ranks.begin(ringCall(2, 10), Wire::Simple, 1);
  const std::vector<RankCall> many(17, {&ranks.executor(0), ranks.launchOf(0)});
  EXPECT_THROW(launchMerged(many, ranks.stream(0)), Error);
  EXPECT_FALSE(ranks.executor(0).failure());
}

}  // namespace
}  // namespace tutti::tests
