#pragma once

// Ring. Every rank sends only to the next one and receives only from the one before.
//
// AllReduce. Each division (channels * ranks of them) travels twice around. Reduce phase: rank r
// sends division r; then it adds its own input to what arrives and passes it on; after P-1 messages
// rank r holds division r+1 whole. Gather phase: whole divisions go around once more.
//
//   four ranks, division d0 (d1..d3 the same, each one rank further)
//     reduce   0 --a0--> 1 --a0+a1--> 2 --a0+a1+a2--> 3      (whole at 3)
//     gather   3 --------> 0 --------> 1 --------> 2
//
//   AllReduce      steps 2(P-1), blocks per rank 2(P-1)/P, per link the same
//   ReduceScatter  steps P-1, blocks per rank P-1: block b starts at rank b+1 and ends at b
//   AllGather      steps P-1, blocks per rank P-1: block b starts at rank b
//   Broadcast      steps P-1, blocks per rank 1: a chain from the root, pipelined by rounds
//   Reduce         steps P-1, blocks per rank 1: a chain from root+1 to the root, pipelined
//   Scan           steps P-1, blocks per rank 1: the chain 0, 1, ..., P-1, pipelined
//
// Bandwidth is best possible for large blocks; latency grows with P. The order of additions starts
// at another rank for each division, so it is not the canonical one.

#include "collectives/algorithms.h"

namespace tutti::collectives {

AlgorithmInfo ring();

}  // namespace tutti::collectives
