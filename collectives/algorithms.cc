#include "collectives/algorithms.h"

#include "collectives/direct.h"
#include "collectives/double_tree.h"
#include "collectives/recursive.h"
#include "collectives/ring.h"
#include "src/base/check.h"

namespace tutti::collectives {

void Registry::add(AlgorithmInfo info) { algorithms_.push_back(std::move(info)); }

const AlgorithmInfo& Registry::find(Algorithm algorithm) const {
  for (const AlgorithmInfo& info : algorithms_)
    if (info.algorithm == algorithm) return info;
  base::fail(ErrorCode::Internal, "no algorithm ", plan::toString(algorithm), " is registered");
}

const Registry& registry() {
  static const Registry all = [] {
    Registry made;
    made.add(ring());
    made.add(doubleTree());
    made.add(recursive());
    made.add(oneShot());
    made.add(twoShot());
    return made;
  }();
  return all;
}

Program build(const PlanSpec& spec, int rank) {
  TUTTI_ASSERT(rank >= 0 && rank < spec.ranks, "rank ", rank, " of ", spec.describe());
  return registry().find(spec.algorithm).build(spec, rank);
}

}  // namespace tutti::collectives
