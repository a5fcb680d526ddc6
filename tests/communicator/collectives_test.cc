// Every collective, type and reduction, over threads of this process, against results known
// exactly.

#include <gtest/gtest.h>

#include <algorithm>

#include <tutti/tutti.h>

#include "collectives/algorithms.h"
#include "tests/support/collective_checks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

constexpr size_t kLargest = kSanitized ? 20001 : 300001;
const std::vector<int> kSizes = kSanitized ? std::vector{2, 5} : std::vector{2, 3, 4, 5, 8};

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, EveryTypeAndReduction) {
  auto ranks = Communicator::createLocal(GetParam());
  runRanks(ranks, [](Communicator& c) {
    Windows windows(c, 777 * 8 * c.size() + 192);
    for (int type = 0; type < kDataTypeCount; ++type)
      for (int op = 0; op < kReduceOpCount; ++op) {
        if (!isDefined(static_cast<ReduceOp>(op), static_cast<DataType>(type))) continue;
        for (const bool inPlace : {false, true})
          for (Windows* const where : {static_cast<Windows*>(nullptr), &windows})
            checkAll(c, {.type = static_cast<DataType>(type),
                         .op = static_cast<ReduceOp>(op),
                         .count = 777,
                         .root = type % c.size(),
                         .inPlace = inPlace,
                         .windows = where});
      }
  });
}

// Addresses that are no multiple of the element's size, or for single bytes of nothing; the largest
// size with one type only, for time.
TEST_P(Collectives, EverySizeAndAlignment) {
  struct Placement {
    DataType type;
    size_t misalign;
    bool inPlace;
  };
  constexpr Placement kPlacements[] = {
      {DataType::Float32, 0, false},    {DataType::Float32, 1, false},
      {DataType::Float32, 4, true},     {DataType::Int16, 1, false},
      {DataType::Int16, 3, true},       {DataType::Float64, 1, true},
      {DataType::Float64, 4, false},    {DataType::Float8E4M3, 1, true},
      {DataType::Float8E4M3, 7, false},
  };
  auto ranks = Communicator::createLocal(GetParam());
  runRanks(ranks, [&](Communicator& c) {
    Windows windows(c, 300001 * sizeof(float) * c.size() + 192);
    for (const size_t count : {0, 1, 2, 3, 7, 15, 16, 17, 255, 4096, 4097, 20001, 65536, 300001})
      for (const auto& [type, misalign, inPlace] : kPlacements)
        for (Windows* const where : {static_cast<Windows*>(nullptr), &windows}) {
          if (count > kLargest || (count > 65536 && type != DataType::Float32)) continue;
          checkAll(c, {.type = type,
                       .count = count,
                       .root = static_cast<int>(count) % c.size(),
                       .inPlace = inPlace,
                       .misalign = misalign,
                       .windows = where});
        }
  });
}

// In place on some ranks only: they agree not to write to each other's memory.
TEST_P(Collectives, AllToAllInPlaceOnSomeRanks) {
  auto ranks = Communicator::createLocal(GetParam());
  runRanks(ranks, [](Communicator& c) {
    Windows windows(c, 50000 * sizeof(float) * c.size() + 192);
    for (const size_t count : {1, 5000, 50000})
      for (int inPlace = 0; inPlace < 1 << std::min(c.size(), 3); ++inPlace)
        checkAllToAll(c, {.count = count,
                          .inPlace = (inPlace >> std::min(c.rank(), 2) & 1) != 0,
                          .windows = &windows});
  });
}

TEST_P(Collectives, EveryRoot) {
  auto ranks = Communicator::createLocal(GetParam());
  runRanks(ranks, [](Communicator& c) {
    Windows windows(c, 100000 * sizeof(float) * c.size() + 192);
    for (int root = 0; root < c.size(); ++root)
      for (const size_t count : {size_t{1}, size_t{5000}, std::min<size_t>(100000, kLargest)})
        for (Windows* const where : {static_cast<Windows*>(nullptr), &windows}) {
          checkBroadcast(c, {.count = count, .root = root, .windows = where});
          checkReduce(c, {.count = count, .root = root, .windows = where});
          for (const bool inPlace : {false, true}) {
            const Case t{.count = count, .root = root, .inPlace = inPlace, .windows = where};
            checkGather(c, t);
            checkScatter(c, t);
          }
        }
  });
}

INSTANTIATE_TEST_SUITE_P(Alone, Collectives, testing::Values(1));
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::ValuesIn(kSizes));

class Algorithms : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Algorithms, Forced) {
  const auto [algorithm, size] = GetParam();
  auto ranks = Communicator::createLocal(size, {.algorithm = algorithm});
  runRanks(ranks, [algorithm = algorithm](Communicator& c) {
    Windows windows(c, 70001 * sizeof(float) * c.size() + 192);
    Windows* const where = std::string(algorithm) == "mapped" ? &windows : nullptr;
    for (const size_t count :
         {size_t{1}, size_t{100}, size_t{5000}, std::min<size_t>(70001, kLargest)})
      for (const bool inPlace : {false, true}) {
        const Case t{.count = count, .root = c.size() - 1, .inPlace = inPlace, .windows = where};
        const auto attempt = [&](auto check, plan::Collective collective) {
          const std::string name = algorithm;
          bool exists = plan::parseProtocol(name).has_value();
          for (const auto& info : collectives::registry().algorithms())
            exists |=
                name == plan::toString(info.algorithm) &&
                info.spec({collective, plan::Protocol::Simple, c.size(), t.root, 1}).has_value();
          if (exists) check(c, t);
        };
        attempt(checkAllReduce, plan::Collective::AllReduce);
        attempt(checkReduceScatter, plan::Collective::ReduceScatter);
        attempt(checkAllGather, plan::Collective::AllGather);
        attempt(checkBroadcast, plan::Collective::Broadcast);
        attempt(checkReduce, plan::Collective::Reduce);
        attempt(checkGather, plan::Collective::Gather);
        attempt(checkScatter, plan::Collective::Scatter);
        attempt(checkAllToAll, plan::Collective::AllToAll);
        attempt(checkScan, plan::Collective::Scan);
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Forced, Algorithms,
                         testing::Combine(testing::Values("ring", "double_tree", "recursive",
                                                          "one_shot", "two_shot", "pairwise",
                                                          "mapped", "attached"),
                                          testing::ValuesIn(kSizes)));

// Who has ordinary memory goes ahead of the others' answers: they come at any moment, on the
// channels of what the staged plan sends.
class Asked : public testing::TestWithParam<int> {};

TEST_P(Asked, RanksAnswerDifferentlyInEachCall) {
  auto ranks = Communicator::createLocal(GetParam(), {.algorithm = "mapped"});
  runRanks(ranks, [](Communicator& c) {
    constexpr size_t kCount = 64;
    constexpr int kTurns = 20000;
    Memory window = c.allocate(2 * kCount * sizeof(int32_t));
    std::vector<int32_t> ordinary(2 * kCount);
    int wrong = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      const bool inWindow = turn >> c.rank() & 1;
      int32_t* const in = inWindow ? window.as<int32_t>() : ordinary.data();
      int32_t* const out = in + kCount;
      const int root = turn % c.size();
      std::fill_n(in, kCount, turn + c.rank());
      c.allReduce({.send = in, .recv = out, .count = kCount, .type = DataType::Int32});
      wrong += out[turn % kCount] != c.size() * turn + c.size() * (c.size() - 1) / 2;
      c.broadcast(
          {.send = in, .recv = out, .count = kCount, .type = DataType::Int32, .root = root});
      wrong += out[turn % kCount] != turn + root;
    }
    EXPECT_EQ(wrong, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Asked, testing::Values(2, 3));

}  // namespace
}  // namespace tutti::tests
