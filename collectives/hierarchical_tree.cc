// Hierarchical Broadcast, Reduce and Barrier: what runs through one leader of each host.

#include <algorithm>

#include "collectives/binomial.h"
#include "collectives/builder.h"
#include "collectives/hierarchical.h"

namespace tutti::collectives {
namespace {

/// A host's leader, by its number there.
int leaderOf(const HostPlace& at, int host) {
  const int rootHost = at.spec.hosts[static_cast<size_t>(at.spec.root)];
  if (host != rootHost) return 0;
  const auto& ranks = at.hosts[static_cast<size_t>(host)];
  return static_cast<int>(std::ranges::find(ranks, at.spec.root) - ranks.begin());
}

/// The tree inside the host, its leader hung into the chain of hosts.
TreePlace treePlaceOf(const HostPlace& at) {
  const int leader = leaderOf(at, at.host);
  TreePlace place = binomialPlace(at.index, at.size(), leader);
  if (place.parent >= 0) place.parent = at.rankOf(at.host, place.parent);
  for (int& child : place.children) child = at.rankOf(at.host, child);
  if (at.index != leader) return place;
  const int rootHost = at.spec.hosts[static_cast<size_t>(at.spec.root)];
  const int previous = wrap(at.host - 1, at.hostCount()), next = wrap(at.host + 1, at.hostCount());
  if (at.host != rootHost) place.parent = at.rankOf(previous, leaderOf(at, previous));
  if (next != rootHost) place.children.push_back(at.rankOf(next, leaderOf(at, next)));
  return place;
}

}  // namespace

Program hostTreeProgram(const HostPlace& at) { return treeProgram(at.spec, treePlaceOf(at)); }

Cost hostTreeCost(const PlanSpec& spec) {
  std::vector<TreePlace> places;
  for (int rank = 0; rank < spec.ranks; ++rank) places.push_back(treePlaceOf({spec, rank}));
  Cost cost = treeCost(spec, places);
  cost.hostBlocks = 1;
  cost.hostSteps = std::ranges::max(spec.hosts);
  return cost;
}

bool hostChainIsCanonical(const HostPlace& root) {
  const auto sumOf = [&](int host) { return rangeOf(root.hosts[static_cast<size_t>(host)]); };
  const int count = root.hostCount();
  std::optional<TreeRange> sum = sumOf(wrap(root.host - 1, count));
  for (int k = count - 2; k >= 0; --k) sum = join(sum, sumOf(wrap(root.host + k, count)));
  return sum.has_value();
}

Program hostBarrier(const HostPlace& at) {
  if (at.index > 0) {
    const Port leader = signal(at.rankOf(at.host, 0));
    return {{{0, {{.targets = {leader}}, {.sources = {leader}}}}}};
  }
  const int hosts = at.hostCount();
  const auto leader = [&](int host) { return signal(at.rankOf(wrap(host, hosts), 0)); };
  Step enter{.targets = {leader(at.host + 1)}};
  for (int mate : at.otherMates()) enter.sources.push_back(signal(at.rankOf(at.host, mate)));
  const std::vector<Port> company = enter.sources;
  std::vector<Step> steps{std::move(enter)};
  for (int distance = 1; distance < hosts; distance *= 2) {
    Step step{.sources = {leader(at.host - distance)}};
    step.targets = 2 * distance < hosts ? std::vector{leader(at.host + 2 * distance)} : company;
    steps.push_back(std::move(step));
  }
  return {{{0, std::move(steps)}}};
}

Cost hostBarrierCost(const PlanSpec& spec) {
  const HostPlace at(spec, 0);
  const int phases = ceilLog2(at.hostCount());
  // A chain takes part in all phases only if it ends so many hosts further; it is longest where
  // both ends have somebody to wait for and to tell.
  const int reach = (1 << phases) - 1;
  bool both = false;
  for (int host = 0; host < at.hostCount(); ++host)
    both |= at.sizeOf(host) > 1 && at.sizeOf(wrap(host + reach, at.hostCount())) > 1;
  return {.steps = phases + (both ? 2 : 1), .hostSteps = phases};
}

}  // namespace tutti::collectives
