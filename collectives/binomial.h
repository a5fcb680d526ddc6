#pragma once

// The aligned binary tree over ranks as a tree of messages: Recursive's Broadcast and Reduce.
//
// Ranks pair up at distance 1, pairs at distance 2, and so on. Of each aligned group one rank
// speaks: the root where it belongs to the group, otherwise the lowest. Because groups are aligned
// to rank 0 and not to the root, a Reduce is in canonical order for every root and every P.
//
//   four ranks, root 2, Reduce      0 <-- 1      2 <-- 3
//                                   0 ---------> 2
//
//   Broadcast  steps at most ceil(log2 P), blocks per rank at most ceil(log2 P), per link 1
//   Reduce     steps at most ceil(log2 P), blocks per rank 1, per link 1
//
// A rank forwards a chunk in one step, so rounds are pipelined along the tree.

#include "collectives/algorithms.h"

namespace tutti::collectives {

/// A rank's neighbours in a tree that hangs on the root.
struct TreePlace {
  int parent = -1;            ///< -1: the root
  std::vector<int> children;  ///< in the order in which their sums are added; they are sent to in
                              ///< the reverse order
};

/// Among ranks 0 to `ranks` - 1.
TreePlace binomialPlace(int rank, int ranks, int root);

/// Broadcast and Reduce along any tree.
Program treeProgram(const PlanSpec& spec, const TreePlace& place);
Cost treeCost(const PlanSpec& spec, const std::vector<TreePlace>& places);

Program binomialProgram(const PlanSpec& spec, int rank);
Cost binomialCost(const PlanSpec& spec);

}  // namespace tutti::collectives
