// What the network of a cluster is said to take: messages between neighbours as long as those of
// the neighbours that are farthest apart.

#include "src/tools/simulate/cluster_network.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "src/tools/simulate/cluster_file.h"

namespace tutti::tools {
namespace {

using parallel::Axis;
using parallel::AxisSet;
using parallel::CollectiveKind;
using parallel::MeshShape;

double message(ClusterNetwork& network, const char* mesh, AxisSet axes) {
  return network.seconds(MeshShape::parse(mesh), axes, CollectiveKind::Message, 1 << 24);
}

TEST(ClusterNetwork, ARingIsAsSlowAsItsFarthestNeighbours) {
  ClusterNetwork network(readCluster("h100-8", TUTTI_TOPOLOGIES));
  const AxisSet context{Axis::Context};
  const double inside = message(network, "cp=8", context);
  EXPECT_DOUBLE_EQ(inside, message(network, "cp=2", context));
  const double between = message(network, "cp=2,tp=8", context);
  EXPECT_GT(between, 4 * inside) << "50 GB/s of a NIC, and 450 of NVLink";
  EXPECT_DOUBLE_EQ(message(network, "cp=16", context), between);
  EXPECT_DOUBLE_EQ(message(network, "cp=64", context), between);
}

TEST(ClusterNetwork, OneRankSendsNothing) {
  ClusterNetwork network(readCluster("h100-8", TUTTI_TOPOLOGIES));
  for (const CollectiveKind kind : parallel::kCollectiveKinds)
    EXPECT_EQ(network.seconds(MeshShape::parse("tp=8"), {Axis::Fsdp}, kind, 1e9), 0);
}

}  // namespace
}  // namespace tutti::tools
