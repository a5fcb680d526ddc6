#pragma once

// Pairwise exchange. The ranks meet like players of a tournament: in each phase they are paired up,
// and the two of a pair exchange what each has for the other. Nobody has more than one message
// under way in either direction, so nobody is swamped. With M = P ranks at the table, or P-1 for
// even P, ranks whose sum is k modulo M meet in phase k; who would meet himself meets the last rank
// (even P) or pauses (odd P).
//
//   four ranks   phase 0   1 <-> 2, 0 <-> 3
//                phase 1   0 <-> 1, 2 <-> 3
//                phase 2   0 <-> 2, 1 <-> 3
//
//   AllToAll   steps P-1 for even P, P for odd P beyond 1; blocks per rank P-1, per link 1
//
// A pair's block is sent before the same place is received into, so it works in place.

#include "collectives/algorithms.h"

namespace tutti::collectives {

AlgorithmInfo pairwise();

}  // namespace tutti::collectives
