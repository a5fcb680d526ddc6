#include "src/tools/simulate/cluster_network.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "parallel/planner/training_layout.h"
#include "src/base/check.h"

namespace tutti::tools {
namespace {

using parallel::AxisSet;
using parallel::CollectiveKind;
using parallel::MeshShape;
using plan::Collective;

// Plans none of whose ranks are alike are walked rank by rank: only of so many ranks, as there are
// others that are as good for more.
constexpr size_t kMostWalked = 64;

Collective collectiveOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce: return Collective::AllReduce;
    case CollectiveKind::ReduceScatter: return Collective::ReduceScatter;
    case CollectiveKind::AllGather: return Collective::AllGather;
    case CollectiveKind::AllToAll: return Collective::AllToAll;
    case CollectiveKind::Message: break;
  }
  return Collective::Broadcast;  // to one other rank
}

}  // namespace

namespace {

/// Of neighbours that send to each other, two that are as far apart as any.
std::vector<int> farthestPair(const topology::Cluster& cluster, const std::vector<int>& ranks) {
  std::vector<int> pair{ranks[0], ranks[1]};
  const auto distance = [&](int a, int b) {
    return (cluster.hostOf(a) != cluster.hostOf(b)) + (cluster.podOf(a) != cluster.podOf(b));
  };
  for (size_t i = 1; i + 1 < ranks.size(); ++i)
    if (distance(ranks[i], ranks[i + 1]) > distance(pair[0], pair[1]))
      pair = {ranks[i], ranks[i + 1]};
  return pair;
}

}  // namespace

/// Groups are all alike: that of rank 0.
ClusterNetwork::Group ClusterNetwork::groupOf(const MeshShape& mesh, AxisSet axes,
                                              CollectiveKind kind) const {
  std::vector<int> ranks = ranksAlong(mesh, 0, axes);
  if (kind == CollectiveKind::Message && ranks.size() > 2) ranks = farthestPair(cluster_, ranks);
  const auto onFirst = [&](auto of) {
    return static_cast<int>(std::ranges::count(ranks, of(ranks[0]), of));
  };
  const int perHost = onFirst([&](int rank) { return cluster_.hostOf(rank); });
  const int ofPod = onFirst([&](int rank) { return cluster_.podOf(rank); });
  return {static_cast<int>(ranks.size()), perHost,
          cluster_.pods.hosts > 0 ? std::max(1, ofPod / perHost) : 0};
}

/// What a group has of the cluster: its ranks of each host, and their share of the links.
topology::Cluster ClusterNetwork::clusterOf(const Group& group) const {
  topology::Cluster own = cluster_;
  own.ranksPerHost = group.perHost;
  own.pods.hosts = group.hostsOfPod;
  const double share = double(group.perHost) / cluster_.ranksPerHost;
  const double nics = cluster_.nics.count * share;
  own.nics.count = std::gcd(std::max(1, static_cast<int>(nics)), group.perHost);
  own.nics.gigabytesPerSecond = nics * cluster_.nics.gigabytesPerSecond / own.nics.count;
  own.inside.sharedGigabytesPerSecond *= share;
  return own;
}

ClusterNetwork::Plans ClusterNetwork::plansOf(const Group& group, Collective collective) const {
  const topology::Cluster cluster = clusterOf(group);
  Plans plans;
  for (const collectives::AlgorithmInfo& info : collectives::registry().algorithms()) {
    const auto spec = specOn(cluster, info, collective, group.ranks, 1);
    if (!spec) continue;
    const auto alike = info.symmetry(*spec).ofGroups(cluster.ranksTogether()).representatives();
    if (alike.size() > kMostWalked) continue;
    plans.push_back(std::make_unique<collectives::Simulation>(info, *spec, cluster));
  }
  return plans;
}

double ClusterNetwork::walked(const Group& group, Collective collective, uint64_t blockBytes) {
  const auto [found, isNew] = microseconds_.try_emplace({group, collective, blockBytes});
  if (!isNew) return found->second;
  auto plans = plans_.find({group, collective});
  if (plans == plans_.end())
    plans = plans_.emplace(std::pair{group, collective}, plansOf(group, collective)).first;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& simulation : plans->second)
    if (simulation->refusal(blockBytes).empty())
      least = std::min(least, simulation->microseconds(blockBytes));
  TUTTI_ASSERT(std::isfinite(least), "no plan of ", plan::toString(collective), " for ",
               group.ranks, " ranks could be walked");
  return found->second = least;
}

double ClusterNetwork::seconds(const MeshShape& mesh, AxisSet axes, CollectiveKind kind,
                               double bytes) {
  const Group group = groupOf(mesh, axes, kind);
  if (group.ranks == 1) return 0;
  const Collective collective = collectiveOf(kind);
  const bool blocks = plan::givesBlocks(collective) || plan::getsBlocks(collective);
  const double block = std::max(1.0, bytes / (blocks ? group.ranks : 1));
  const uint64_t below = std::bit_floor(static_cast<uint64_t>(block));
  const double first = walked(group, collective, below);
  const double second = walked(group, collective, 2 * below);
  const double place = block / static_cast<double>(below) - 1;
  return (first + place * (second - first)) / 1e6;
}

}  // namespace tutti::tools
