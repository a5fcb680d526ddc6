#pragma once

// Ticket: what the ranks of a communicator that grows show at the rendezvous. New ranks, which have
// the id alone, do not know it, so that none of them takes the place of an existing rank.

#include <array>
#include <cstddef>

namespace tutti::bootstrap {

using Ticket = std::array<std::byte, 16>;  ///< random; all zero: none

/// Ranks 0 to count - 1 of a job that grows.
struct ExistingRanks {
  int count = 0;  ///< 0: the job does not grow, and all ranks are alike
  Ticket ticket = {};
};

}  // namespace tutti::bootstrap
