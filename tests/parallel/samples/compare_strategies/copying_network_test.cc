// What exchanges cost by which compare_strategies predicts the time of ranks that are not there.

#include <gtest/gtest.h>

#include "parallel/samples/compare_strategies/strategies.h"

namespace tutti::parallel {
namespace {

// Eight bytes over four ranks, of which each has two, or adds up two.
TEST(CopyingNetwork, CopiesWhatARankGetsFromOthers) {
  CopyingNetwork network(2);  // bytes a second
  const MeshShape mesh = MeshShape::parse("dp=3,tp=4");
  const auto seconds = [&](CollectiveKind kind) {
    return network.seconds(mesh, {Axis::Tensor}, kind, 8);
  };
  for (const CollectiveKind kind :
       {CollectiveKind::ReduceScatter, CollectiveKind::AllGather, CollectiveKind::AllToAll})
    EXPECT_EQ(seconds(kind), 3) << toString(kind);
  EXPECT_EQ(seconds(CollectiveKind::AllReduce), 6) << "to add up, and to give back";
  EXPECT_EQ(seconds(CollectiveKind::Message), 4) << "goes to one rank, whole";
  EXPECT_EQ(network.seconds(mesh, {}, CollectiveKind::AllReduce, 8), 0) << "nobody is there";
}

}  // namespace
}  // namespace tutti::parallel
