#pragma once

// Recursive halving and doubling, for any number of ranks.
//
// AllReduce. The ranks are cut into aligned groups of powers of two, largest first (7 = 4 + 2 + 1).
// Halving: in its group a rank exchanges with the ones at distance 1, 2, 4, ...; each time it gives
// away one half of what it still has and adds the other half, so in the end it has 1/size of the
// block, summed over the group. Then the smallest group gives its parts to the next larger, that to
// the next, until the largest group has the whole sum; the results take the same way back; and each
// group doubles: the exchanges in reverse order without sums. As distances begin at 1 and groups
// are aligned, the order of additions is the canonical one for every P.
//
//   four ranks       0 <-> 1, 2 <-> 3    halves: (0+1), (2+3)
//                    0 <-> 2, 1 <-> 3    quarters: (0+1)+(2+3)
//                    0 <-> 2, 1 <-> 3    copies of quarters, then
//                    0 <-> 1, 2 <-> 3    of halves
//
//   AllReduce      steps 2 floor(log2 P), blocks per rank 2(P-1)/P with one group, 2 - 1/size of
//                  the first with two, otherwise 2; per link 1
//   AllGather      steps ceil(log2 P), blocks per rank P-1: rank r sends all it has, blocks r, r+1,
//                  ..., to rank r - 1, r - 2, r - 4, ... (Bruck et al.: Efficient algorithms for
//                  all-to-all communications), each to its place, so nothing is rotated afterwards
//   ReduceScatter  the mirror of that: steps ceil(log2 P), blocks per rank P-1, in an order that
//                  begins at the block's owner and is canonical only for two ranks
//   Broadcast, Reduce   the aligned binary tree: binomial.h
//   Scan           steps ceil(log2 P), blocks per rank ceil(log2 P) (rank 0), per link 1: partners
//                  at distance 1, 2, 4, ... exchange the sums of their aligned groups, so that each
//                  knows that of the group they make; the upper one adds the lower one's sum to its
//                  own result. The order of additions is the canonical one.
//   Barrier        steps ceil(log2 P): a signal to rank + 1, + 2, + 4, ... (dissemination)

#include "collectives/algorithms.h"

namespace tutti::collectives {

AlgorithmInfo recursive();

/// One lane of AllReduce (recursive_groups.cc): divisions `first` to `first + largest group`.
plan::Lane groupsLane(const PlanSpec& spec, int rank, int channel);
Cost groupsCost(const PlanSpec& spec);

/// One lane of Scan (recursive_scan.cc).
plan::Lane scanLane(const PlanSpec& spec, int rank, int channel);
uint32_t scanScratchBlocks(int ranks);
Cost scanCost(const PlanSpec& spec);

}  // namespace tutti::collectives
