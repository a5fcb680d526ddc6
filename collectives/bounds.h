#pragma once

// How fast a collective could be on a cluster, whatever the plan: two lower bounds that hold for
// every walk of simulate.h.
//
// Latency. Every result needs what all ranks have (a broadcast: all ranks need what one has).
// Whoever is told passes it on, one message after another with the overhead o of a step between
// them, and each is told a latency L later, plus 2 o for taking and sending: the postal model
// (Bar-Noy, Kipnis: Designing broadcasting algorithms in the postal model for message-passing
// systems; a tree of sums is the same in reverse). The bound is when the last of P ranks is told
// so, with the least L there is; or, where that is longer, the last of the hosts with the L between
// hosts, when a host's ranks all know what one of them does and nothing inside takes time.
//
// Bandwidth. Cut the ranks into groups of g: ranks, hosts, pods; k of them, S bytes a block. One
// direction of a group's links carries at least, or on average over groups,
//
//   AllReduce                    2 (k-1)/k S     a sum takes k-1 transfers until somebody has it,
//   and
//                                                k-1 until all the others do
//   AllGather, Gather            (P-g) S         all blocks of others come
//   ReduceScatter, Scatter       (P-g) S         one sum, or block, for every rank elsewhere leaves
//   AllToAll                     g (P-g) S
//   Broadcast, Reduce, Scan      S
//
// and needs these bytes divided by the group's bandwidth: of a rank its port inside and its NIC, of
// a host all NICs, of a pod its uplinks.

#include <algorithm>

#include "collectives/algorithms.h"
#include "src/topology/cluster.h"

namespace tutti::collectives {

struct Bounds {
  double latencyMicroseconds = 0;
  double bandwidthMicroseconds = 0;
  double microseconds() const { return std::max(latencyMicroseconds, bandwidthMicroseconds); }
};

Bounds boundsOf(Collective collective, int ranks, uint64_t blockBytes,
                const topology::Cluster& cluster);

}  // namespace tutti::collectives
