#pragma once

// What collectives of a training take on a cluster that need not exist: the library's plans, walked
// as `tutti simulate` walks them. All groups of ranks along the same axes make the same call at the
// same time, so each has its share of the links that they pass together.

#include <map>
#include <memory>
#include <vector>

#include "collectives/simulate.h"
#include "parallel/planner/rates.h"

namespace tutti::tools {

class ClusterNetwork final : public parallel::NetworkModel {
 public:
  explicit ClusterNetwork(topology::Cluster cluster) : cluster_(std::move(cluster)) {}

  using NetworkModel::seconds;
  /// Of the fastest plan. Between sizes that are powers of two, where plans are walked, on a line.
  double seconds(const parallel::MeshShape& mesh, parallel::AxisSet axes,
                 parallel::CollectiveKind kind, double bytes) override;

 private:
  /// Ranks of one group, by what their times depend on.
  struct Group {
    int ranks = 1, perHost = 1, hostsOfPod = 0;
    auto operator<=>(const Group&) const = default;
  };
  using Plans = std::vector<std::unique_ptr<collectives::Simulation>>;

  Group groupOf(const parallel::MeshShape& mesh, parallel::AxisSet axes,
                parallel::CollectiveKind kind) const;
  topology::Cluster clusterOf(const Group& group) const;
  Plans plansOf(const Group& group, plan::Collective collective) const;
  double walked(const Group& group, plan::Collective collective, uint64_t blockBytes);

  const topology::Cluster cluster_;
  std::map<std::pair<Group, plan::Collective>, Plans> plans_;
  std::map<std::tuple<Group, plan::Collective, uint64_t>, double> microseconds_;
};

}  // namespace tutti::tools
