#pragma once

#include "parallel/mesh/mesh_communicator.h"

namespace tutti::parallel {

/// What the store did in one step with gradients and weights, for tests and reports. The sums of
/// the loss and of the norm are not counted.
struct StoreCounters {
  CollectiveCount allReduce, reduceScatter, allGather;
  CollectiveCount partialAllReduce;  ///< of gradients that are partial over other axes too
  int startedEarly = 0;   ///< reductions that began before the next unit's backward had ended
  int finishedEarly = 0;  ///< of all but the last, those that had ended when the last began
  int prefetched = 0;     ///< AllGathers that began before their unit was asked for
};

}  // namespace tutti::parallel
