#pragma once

// Predicts how long a plan takes: walks the same programs that run (walk.h). A message is seen some
// time after it was written. Where ranks outnumber cores, they take turns on these: a core is
// handed over for each turn, round all ranks that share it, and messages are seen later. A message
// between hosts also passes the link of its sender's host and that of its receiver's, one after
// another with those of the host's other ranks; the two directions of a link are independent. A
// message between GPUs that are apart passes the sender's link to the host's memory and the
// receiver's in the same way. Who is whose neighbour in a ring or a tree is a matter of ranks and
// not of hosts, so a plan costs more where neighbouring ranks are on different hosts.

#include "collectives/algorithms.h"
#include "src/topology/topology.h"

namespace tutti::collectives {

/// Microseconds for `blockBytes` bytes per block. A pure function. For more than 16 ranks, or 64 of
/// several hosts or of which some are apart, the longest chain of messages and the work of a few
/// ranks, as much longer as ranks outnumber cores, stand in for the walk.
double predictMicroseconds(const AlgorithmInfo& info, const PlanSpec& spec, uint64_t blockBytes,
                           const topology::Topology& topology, const topology::Tuning& tuning);

}  // namespace tutti::collectives
