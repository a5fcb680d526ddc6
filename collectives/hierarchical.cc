#include "collectives/hierarchical.h"

#include <algorithm>

#include "collectives/builder.h"
#include "src/base/check.h"
#include "src/plan/hosts.h"

namespace tutti::collectives {
namespace {

/// Steps with many operands fold the sums of the hosts as the tree over hosts.
std::optional<TreeRange> rangeOfHosts(std::span<const std::vector<int>> hosts) {
  if (hosts.size() == 1) return rangeOf(hosts[0]);
  const size_t left = std::bit_ceil(hosts.size()) / 2;
  return join(rangeOfHosts(hosts.first(left)), rangeOfHosts(hosts.subspan(left)));
}

bool isCanonical(const HostPlace& at) {
  if (at.spec.collective == Collective::Reduce) return hostChainIsCanonical(at);
  return plan::reducesAll(at.spec.collective) && rangeOfHosts(at.hosts).has_value();
}

std::optional<PlanSpec> makeSpec(const SpecRequest& request) {
  const Collective c = request.collective;
  if (request.protocol != Protocol::Simple || request.hosts.empty()) return {};
  if (!isOneOf(c, {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                   Collective::Broadcast, Collective::Reduce, Collective::Barrier}))
    return {};
  TUTTI_ASSERT(request.hosts.size() == static_cast<size_t>(request.ranks), "hosts of ",
               request.hosts.size(), " ranks for ", request.ranks);
  PlanSpec spec = specOf(request, Algorithm::Hierarchical);
  spec.hosts = request.hosts;
  const HostPlace at(spec, spec.root);
  if (at.largestHost() == 1) return {};
  if (c == Collective::AllReduce) {
    spec.divisions *= static_cast<uint32_t>(at.hostCount() * at.smallestHost());
    spec.channels *= 2;  // sums and results pass between the same ranks
  }
  spec.canonicalOrder = isCanonical(at);
  return spec;
}

Program makeProgram(const PlanSpec& spec, int rank) {
  const HostPlace at(spec, rank);
  switch (spec.collective) {
    case Collective::Broadcast:
    case Collective::Reduce: return hostTreeProgram(at);
    case Collective::Barrier: return hostBarrier(at);
    default: return hostBlocksProgram(at);
  }
}

Cost cost(const PlanSpec& spec) {
  switch (spec.collective) {
    case Collective::Broadcast:
    case Collective::Reduce: return hostTreeCost(spec);
    case Collective::Barrier: return hostBarrierCost(spec);
    default: return hostBlocksCost(spec);
  }
}

/// Hosts trade places, where they have equally many ranks, neighbours all.
plan::Symmetry symmetry(const PlanSpec& spec) {
  const HostPlace at(spec, 0);
  const bool alike = !plan::hasRoot(spec.collective) && std::ranges::is_sorted(spec.hosts) &&
                     at.smallestHost() == at.largestHost();
  return alike ? plan::Symmetry::shift(spec.ranks, at.size()) : unlike(spec);
}

/// 0 to `count` - 1 without `self`, beginning with the one after it.
std::vector<int> othersThan(int self, int count) {
  std::vector<int> others;
  for (int k = 1; k < count; ++k) others.push_back(wrap(self + k, count));
  return others;
}

}  // namespace

HostPlace::HostPlace(const PlanSpec& s, int rank)
    : spec(s),
      hosts(plan::ranksByHost(s.hosts, s.ranks)),
      host(s.hosts[static_cast<size_t>(rank)]),
      index(static_cast<int>(std::ranges::find(mates(), rank) - mates().begin())) {}

int HostPlace::smallestHost() const {
  return static_cast<int>(std::ranges::min_element(hosts, {}, &std::vector<int>::size)->size());
}
int HostPlace::largestHost() const {
  return static_cast<int>(std::ranges::max_element(hosts, {}, &std::vector<int>::size)->size());
}
std::vector<int> HostPlace::otherMates() const { return othersThan(index, size()); }
std::vector<int> HostPlace::otherHosts() const { return othersThan(host, hostCount()); }

std::optional<TreeRange> rangeOf(const std::vector<int>& mates) {
  const TreeRange range{mates.front(), mates.back() + 1};
  if (range.last - range.first != static_cast<int>(mates.size())) return {};
  return range;
}

std::optional<TreeRange> join(std::optional<TreeRange> a, std::optional<TreeRange> b) {
  if (!a || !b) return {};
  if (b->first < a->first) std::swap(a, b);
  const auto whole = static_cast<int>(std::bit_ceil(static_cast<unsigned>(b->last - a->first)));
  if (a->last != b->first || a->last - a->first != whole / 2) return {};
  return TreeRange{a->first, b->last};
}

AlgorithmInfo hierarchical() {
  return {Algorithm::Hierarchical, makeSpec, makeProgram, cost, symmetry};
}

}  // namespace tutti::collectives
