#pragma once

// Double binary tree (Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast,
// reduction and scan). Two trees hang on one root; each carries half of the block. Who is inside
// one tree is a leaf of the other, so nobody sends more than two blocks in an AllReduce, and the
// depth is logarithmic. Sums run up and results down, in lanes of their own, so rounds overlap.
//
// The first tree numbers the ranks from the root, 0 to P-1, and is in order: a number's depth is
// given by its trailing zeros. The second renumbers all but the root so that odd and even swap.
//
//   four ranks        0            0
//   (root 0)          |            |
//                     2            1
//                    / \          / \                                                           .
//                   1   3        3   2
//
//   AllReduce  steps 2 ceil(log2 P), blocks per rank 2 (P = 2: 1, P = 3: 3/2), per link at most 1
//   Broadcast  steps ceil(log2 P), blocks per rank 1, per link at most 1
//   Reduce     the same, mirrored
//   Barrier    steps 2 ceil(log2 P), signals only, in the first tree
//
// The trees add neighbours of another order than the canonical one.

#include "collectives/algorithms.h"

namespace tutti::collectives {

AlgorithmInfo doubleTree();

}  // namespace tutti::collectives
