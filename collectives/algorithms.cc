#include "collectives/algorithms.h"

#include <algorithm>
#include <charconv>

#include "collectives/direct.h"
#include "collectives/double_tree.h"
#include "collectives/hierarchical.h"
#include "collectives/pairwise.h"
#include "collectives/recursive.h"
#include "collectives/ring.h"
#include "src/base/check.h"
#include "src/plan/checker.h"
#include "src/plan/hosts.h"

namespace tutti::collectives {

namespace {

void proveOne(const AlgorithmInfo& info, const PlanSpec& spec) {
  // Three rounds contain one and two: both ends of a channel agree on the messages of each round.
  const plan::CheckResult result = plan::PlanChecker(spec, info.build).check({3});
  if (!result.ok())
    base::fail(ErrorCode::Internal, "the plan ", spec.describe(),
               " is refused: ", result.error->message);
}

/// All on one host, and where there are two halves of a host each.
std::vector<std::vector<int>> placementsProvedAtStart(int ranks) {
  std::vector<int> halves(static_cast<size_t>(ranks), 0);
  for (int rank = ranks / 2; rank < ranks; ++rank) halves[static_cast<size_t>(rank)] = 1;
  return {{}, plan::hostsInOrder(halves)};
}

void prove(const AlgorithmInfo& info) {
  for (int c = 0; c < plan::kCollectiveCount; ++c)
    for (Protocol protocol : {Protocol::Simple, Protocol::Mapped, Protocol::Attached})
      for (int ranks = 1; ranks <= kRanksProvedAtStart; ++ranks)
        for (const std::vector<int>& hosts : placementsProvedAtStart(ranks)) {
          const auto collective = static_cast<Collective>(c);
          for (int root = 0; root < (plan::hasRoot(collective) ? ranks : 1); ++root)
            // What does not depend on the hosts comes again with each placement.
            if (const auto spec = info.spec({collective, protocol, ranks, root, 1, hosts});
                spec && spec->hosts == hosts)
              proveOne(info, *spec);
        }
}

bool isProvedInUse(const AlgorithmInfo& info, const PlanSpec& spec) {
  if (!spec.hosts.empty()) return spec.ranks <= kRanksOnHostsProvedInUse;
  const auto simplest =
      info.spec({spec.collective, spec.protocol, spec.ranks, spec.root, 1, spec.hosts});
  if (spec != simplest) return spec.ranks <= kRanksProvedInUse;
  const int byTests =
      plan::hasRoot(spec.collective) ? kRanksWithRootProvedByTests : kRanksProvedByTests;
  return spec.ranks > byTests && spec.ranks <= kRanksProvedInUse;
}

}  // namespace

void Registry::add(AlgorithmInfo info) {
  prove(info);
  algorithms_.push_back(std::move(info));
}

const AlgorithmInfo& Registry::find(Algorithm algorithm) const {
  for (const AlgorithmInfo& info : algorithms_)
    if (info.algorithm == algorithm) return info;
  base::fail(ErrorCode::Internal, "no algorithm ", plan::toString(algorithm), " is registered");
}

void Registry::proveOnce(const AlgorithmInfo& info, const PlanSpec& spec) const {
  std::lock_guard lock(proved_->mutex);
  if (proved_->specs.contains(spec.hash())) return;
  proveOne(info, spec);
  proved_->specs.insert(spec.hash());
}

Program Registry::build(const PlanSpec& spec, int rank) const {
  TUTTI_ASSERT(rank >= 0 && rank < spec.ranks, "rank ", rank, " of ", spec.describe());
  const AlgorithmInfo& info = find(spec.algorithm);
  if (isProvedInUse(info, spec)) proveOnce(info, spec);
  return info.build(spec, rank);
}

// Never destroyed: exit handlers may still make calls.
const Registry& registry() {
  static const Registry& all = *[] {
    auto* const own = new Registry;
    Registry& made = *own;
    made.add(ring());
    made.add(doubleTree());
    made.add(recursive());
    made.add(oneShot());
    made.add(twoShot());
    made.add(pairwise());
    made.add(hierarchical());
    return own;
  }();
  return all;
}

AlgorithmName::AlgorithmName(const std::string& text) : algorithm(text.substr(0, text.find('/'))) {
  if (algorithm.size() == text.size()) return;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + algorithm.size() + 1, last, channels);
  wellFormed = error == std::errc() && end == last && channels >= 1;
}

bool exists(const std::string& name, Collective collective, int ranks,
            const std::vector<int>& hosts, bool uneven) {
  const Protocol protocol = plan::parseProtocol(name).value_or(Protocol::Simple);
  const bool staged = protocol == Protocol::Simple;
  if (!staged && !hosts.empty()) return false;
  const AlgorithmName named(name);
  const int channels = hosts.empty() ? 1 : std::max(named.channels, 1);
  const auto algorithms = registry().algorithms();
  return std::any_of(algorithms.begin(), algorithms.end(), [&](const AlgorithmInfo& info) {
    if (staged && named.algorithm != plan::toString(info.algorithm)) return false;
    const auto spec = info.spec({collective, protocol, ranks, 0, channels, hosts});
    if (spec && named.channels > 0 && spec->channels != named.channels) return false;
    return spec && (spec->unevenSafe || !uneven);
  });
}

Program build(const PlanSpec& spec, int rank) { return registry().build(spec, rank); }

}  // namespace tutti::collectives
