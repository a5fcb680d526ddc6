#include "collectives/algorithms.h"

#include <algorithm>

#include "collectives/direct.h"
#include "collectives/double_tree.h"
#include "collectives/pairwise.h"
#include "collectives/recursive.h"
#include "collectives/ring.h"
#include "src/base/check.h"
#include "src/plan/checker.h"

namespace tutti::collectives {

namespace {

void proveOne(const AlgorithmInfo& info, const PlanSpec& spec) {
  // Three rounds contain one and two: both ends of a channel agree on the messages of each round.
  const plan::CheckResult result = plan::PlanChecker(spec, info.build).check({3});
  if (!result.ok())
    base::fail(ErrorCode::Internal, "the plan ", spec.describe(),
               " is refused: ", result.error->message);
}

void prove(const AlgorithmInfo& info) {
  for (int c = 0; c < plan::kCollectiveCount; ++c)
    for (Protocol protocol : {Protocol::Simple, Protocol::Mapped})
      for (int ranks = 1; ranks <= kRanksProvedAtStart; ++ranks) {
        const auto collective = static_cast<Collective>(c);
        for (int root = 0; root < (plan::hasRoot(collective) ? ranks : 1); ++root)
          if (const auto spec = info.spec({collective, protocol, ranks, root, 1}))
            proveOne(info, *spec);
      }
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
  const int byTests =
      plan::hasRoot(spec.collective) ? kRanksWithRootProvedByTests : kRanksProvedByTests;
  if (spec.ranks > byTests && spec.ranks <= kRanksProvedInUse) proveOnce(info, spec);
  return info.build(spec, rank);
}

const Registry& registry() {
  static const Registry all = [] {
    Registry made;
    made.add(ring());
    made.add(doubleTree());
    made.add(recursive());
    made.add(oneShot());
    made.add(twoShot());
    made.add(pairwise());
    return made;
  }();
  return all;
}

bool exists(const std::string& name, Collective collective, int ranks, bool uneven) {
  const bool mapped = name == "mapped";
  const Protocol protocol = mapped ? Protocol::Mapped : Protocol::Simple;
  const auto algorithms = registry().algorithms();
  return std::any_of(algorithms.begin(), algorithms.end(), [&](const AlgorithmInfo& info) {
    if (!mapped && name != plan::toString(info.algorithm)) return false;
    const auto spec = info.spec({collective, protocol, ranks, 0, 1});
    return spec && (spec->unevenSafe || !uneven);
  });
}

Program build(const PlanSpec& spec, int rank) { return registry().build(spec, rank); }

}  // namespace tutti::collectives
