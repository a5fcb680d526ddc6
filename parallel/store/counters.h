#pragma once

#include <cstddef>

namespace tutti::parallel {

/// Calls of one kind of collective, and the bytes of their larger side on this rank.
struct CollectiveCount {
  int calls = 0;
  size_t bytes = 0;

  void add(size_t more) {
    ++calls;
    bytes += more;
  }
  bool operator==(const CollectiveCount&) const = default;
};

/// What the store did in one step with gradients and weights, for tests and reports. The sums of
/// the loss and of the norm are not counted.
struct StoreCounters {
  CollectiveCount allReduce, reduceScatter, allGather;
  int startedEarly = 0;   ///< reductions that began before the next unit's backward had ended
  int finishedEarly = 0;  ///< of all but the last, those that had ended when the last began
  int prefetched = 0;     ///< AllGathers that began before their unit was asked for
};

}  // namespace tutti::parallel
