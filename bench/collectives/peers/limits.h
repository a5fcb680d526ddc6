#pragma once

// What this machine can do at best, by two threads of this process on a core each.

#include "bench/collectives/peers/row.h"

namespace tutti::bench {

/// Nanoseconds that a flag takes from one thread to another: the best of a few thousand round trips
/// a turn, so that a turn in which the two shared a core does not count.
double flagLatencyNs();

/// Nanoseconds between two readings of the clock.
double clockNs();

/// Microseconds of a call on two ranks that can load and store each other's buffers, which their
/// owners rewrite and read, in the fastest of a few ways. None of barriers.
std::optional<double> zeroCopyUs(const Case& what);

}  // namespace tutti::bench
