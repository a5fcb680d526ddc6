#pragma once

// Clocks: how far those of ranks are apart. The processes of one boot of one machine have one
// clock. Ranks of different machines leave several barriers, each at a moment that differs from
// rank 0's by no more than the barrier takes; the median of these differences counts. So a lane of
// another machine is off by at most the time of such a barrier, and by what the clocks drift later.

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/mesh/mesh_communicator.h"

namespace tutti::parallel {

/// What a rank's clock said.
struct ClockReadings {
  std::string boot;           ///< of its machine; empty: not known
  std::vector<int64_t> left;  ///< nanoseconds, when it left each barrier

  std::string text() const;
  static ClockReadings parse(const std::string& text);
};

/// Collective over `all`; null: there is one rank.
ClockReadings readClock(MeshCommunicator* all);
/// What the clock of `own` is ahead of that of `first`.
int64_t nanosecondsAhead(const ClockReadings& own, const ClockReadings& first);

}  // namespace tutti::parallel
