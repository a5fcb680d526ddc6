#include "src/topology/topology.h"

#include <gtest/gtest.h>

namespace tutti::topology {
namespace {

TEST(Topology, DescribesItself) {
  EXPECT_EQ((Topology{.ranks = 2, .cores = 2, .hostOf = {0, 0}}.describe()),
            "2 ranks on 1 host, 2 cores, slots of 65536 bytes");
  EXPECT_EQ(
      (Topology{.ranks = 3, .cores = 1, .hostOf = {0, 1, 0}, .slotBytes = 512}.describe()),
      "3 ranks on 2 hosts, 1 core each, slots of 512 bytes in 2 channels, oversubscribed; host "
      "of each rank: 0 1 0");
}

TEST(Topology, CountsHostsAndTheRanksOfTheLargest) {
  const Topology one{.ranks = 4, .cores = 3}, two{.ranks = 4, .cores = 3, .hostOf = {1, 0, 1, 1}};
  EXPECT_EQ(one.hosts(), 1);
  EXPECT_EQ(one.ranksPerHost(), 4);
  EXPECT_TRUE(one.oversubscribed());
  EXPECT_EQ(two.hosts(), 2);
  EXPECT_EQ(two.ranksPerHost(), 3);
  EXPECT_FALSE(two.oversubscribed());
}

}  // namespace
}  // namespace tutti::topology
