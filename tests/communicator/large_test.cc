// Counts around and beyond what 31 and 32 bits hold.

#include <gtest/gtest.h>

#include <tutti/tutti.h>

#include "tests/support/local_ranks.h"

namespace tutti::tests {
namespace {

// Every element differs from its neighbours and from those 2^31 and 2^32 further on.
int8_t pattern(size_t i) { return static_cast<int8_t>((i % 61) + (i >> 30)); }

TEST(Large, CountsBeyond32Bits) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    constexpr size_t kMost = (size_t{1} << 32) + 17;
    std::vector<int8_t> x(kMost);
    for (const size_t count : {(size_t{1} << 31) - 1, (size_t{1} << 31) + 1, kMost}) {
      for (size_t i = 0; i < count; ++i) x[i] = pattern(i);
      c.allReduce({.send = x.data(), .recv = x.data(), .count = count, .type = DataType::Int8});
      size_t wrong = 0;
      for (size_t i = 0; i < count; ++i) wrong += x[i] != static_cast<int8_t>(2 * pattern(i));
      ASSERT_EQ(wrong, 0u) << "all_reduce of " << count;
      for (size_t i = 0; i < count; ++i) x[i] = c.rank() == 1 ? pattern(i) : int8_t{0};
      c.broadcast(
          {.send = x.data(), .recv = x.data(), .count = count, .type = DataType::Int8, .root = 1});
      for (size_t i = 0; i < count; ++i) wrong += x[i] != pattern(i);
      ASSERT_EQ(wrong, 0u) << "broadcast of " << count;
    }
  });
}

}  // namespace
}  // namespace tutti::tests
