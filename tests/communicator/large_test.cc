// Counts around and beyond what 31 and 32 bits hold.

#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>

#include <tutti/tutti.h>

#include "tests/support/local_ranks.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

// Every element differs from its neighbours and from those 2^31 and 2^32 further on.
int8_t pattern(size_t i) { return static_cast<int8_t>((i % 61) + (i >> 30)); }

// AllReduce and Broadcast of these counts in `x`, which has room for the most.
constexpr size_t kMost = (size_t{1} << 32) + 17;

void reduceAndBroadcast(Communicator& c, int8_t* x, std::initializer_list<size_t> counts) {
  for (const size_t count : counts) {
    for (size_t i = 0; i < count; ++i) x[i] = pattern(i);
    c.allReduce({.send = x, .recv = x, .count = count, .type = DataType::Int8});
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) wrong += x[i] != static_cast<int8_t>(2 * pattern(i));
    ASSERT_EQ(wrong, 0u) << "all_reduce of " << count;
    for (size_t i = 0; i < count; ++i) x[i] = c.rank() == 1 ? pattern(i) : int8_t{0};
    c.broadcast({.send = x, .recv = x, .count = count, .type = DataType::Int8, .root = 1});
    for (size_t i = 0; i < count; ++i) wrong += x[i] != pattern(i);
    ASSERT_EQ(wrong, 0u) << "broadcast of " << count;
  }
}

// Memory of allocate() is mapped, ordinary memory goes through slots. Processes are forked before
// there are threads.
TEST(Large, CountsBeyond32BitsInWindows) {
  RankProcesses ranks(2, [](const RankProcesses::Context& context) {
    Communicator c = context.join();
    Memory x = c.allocate(kMost);
    reduceAndBroadcast(c, static_cast<int8_t*>(x.data()), {(size_t{1} << 31) + 1, kMost});
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(std::chrono::minutes(10)));
}

TEST(Large, CountsBeyond32BitsThroughSlots) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    std::vector<int8_t> x(kMost);
    reduceAndBroadcast(c, x.data(), {(size_t{1} << 31) - 1, (size_t{1} << 31) + 1, kMost});
  });
}

// Elements of several bytes, and blocks of all ranks: counts times sizes, and offsets, are beyond
// 32 bits where counts are not.
TEST(Large, BlocksAndElementsOfSeveralBytes) {
  constexpr size_t kCount = (size_t{1} << 31) + 3;
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    {
      std::vector<int8_t> all(2 * kCount);
      int8_t* own = all.data() + static_cast<size_t>(c.rank()) * kCount;
      for (size_t i = 0; i < kCount; ++i) own[i] = static_cast<int8_t>(pattern(i) + c.rank());
      c.allGather({.send = own, .recv = all.data(), .count = kCount, .type = DataType::Int8});
      size_t wrong = 0;
      for (size_t i = 0; i < 2 * kCount; ++i)
        wrong += all[i] != static_cast<int8_t>(pattern(i % kCount) + static_cast<int>(i / kCount));
      EXPECT_EQ(wrong, 0u) << "all_gather";
      c.reduceScatter({.send = all.data(), .recv = own, .count = kCount, .type = DataType::Int8});
      for (size_t i = 0; i < kCount; ++i)
        wrong += own[i] != static_cast<int8_t>(2 * (pattern(i) + c.rank()));
      EXPECT_EQ(wrong, 0u) << "reduce_scatter";
    }
    std::vector<int16_t> x(kCount);
    for (size_t i = 0; i < kCount; ++i) x[i] = static_cast<int16_t>(pattern(i) * 3);
    c.reduce({.send = x.data(), .recv = x.data(), .count = kCount, .type = DataType::Int16});
    size_t wrong = 0;
    for (size_t i = 0; i < kCount && c.rank() == 0; ++i) wrong += x[i] != pattern(i) * 6;
    EXPECT_EQ(wrong, 0u) << "reduce of int16";
  });
}

}  // namespace
}  // namespace tutti::tests
