#pragma once

// Predicts how long a plan takes: walks the same programs that run, all ranks together, in the
// order of time. One rank is one thread: its lanes take turns. A step costs its own overhead and
// the bytes it folds and copies; a message is seen some time after it was written. Where ranks
// outnumber cores, work takes longer by their ratio and every message waits for a core to be handed
// over. A message between hosts also passes the link of its sender's host and that of its
// receiver's, one after another with those of the host's other ranks; the two directions of a link
// are independent. Who is whose neighbour in a ring or a tree is a matter of ranks and not of
// hosts, so a plan costs more where neighbouring ranks are on different hosts.
//
// Free slots are not waited for (transports have more than a plan needs), and after a few rounds
// each further one is taken to last as long as the last that was walked, or as the busiest rank
// works or the busiest link is in use if that is longer.

#include "collectives/algorithms.h"
#include "src/topology/topology.h"

namespace tutti::collectives {

/// Microseconds for `blockBytes` bytes per block. A pure function. For more than 16 ranks, or 64 of
/// several hosts, the longest chain of messages and the work of a few ranks stand in for the walk.
double predictMicroseconds(const AlgorithmInfo& info, const PlanSpec& spec, uint64_t blockBytes,
                           const topology::Topology& topology, const topology::Tuning& tuning);

}  // namespace tutti::collectives
