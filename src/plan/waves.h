#pragma once

// One order of all steps of a plan, over all ranks: steps are performed in waves, and a step is in
// the first wave behind all that it waits for, on whatever rank. A rank that performs its steps in
// this order, each to its end before the next, never waits for one that waits for it. Who has one
// thread, or queue, for several lanes needs such an order.

#include <cstdint>
#include <functional>
#include <vector>

#include "src/plan/plan.h"

namespace tutti::plan {

using ProgramOf = std::function<Program(int rank)>;

/// A step's turn on its rank.
struct Turn {
  uint32_t wave = 0, lane = 0, step = 0;
  auto operator<=>(const Turn&) const = default;
};

struct Waves {
  std::vector<Turn> turns;  ///< of the rank's steps in a round, in order
  uint32_t count = 0;       ///< of waves, the same on all ranks
};

/// For channels of so many slots; of plans that map nothing. Rounds follow each other.
Waves wavesOf(const ProgramOf& programOf, int ranks, int rank, uint32_t slots);

}  // namespace tutti::plan
