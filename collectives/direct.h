#pragma once

// Direct: every rank talks to every other one. Sums are folded by whoever receives all operands, as
// the aligned binary tree over ranks, so all of these are in canonical order.
//
// One shot. Whoever needs a block gets it from each that has it.
//   four ranks, AllReduce:   each rank r:  a_r --> the three others;  fold(a0, a1, a2, a3)
//
//   AllReduce      steps 1, blocks per rank P-1, per link 1
//   AllGather      steps 1, blocks per rank P-1, per link 1
//   ReduceScatter  steps 1, blocks per rank P-1, per link 1
//   Broadcast      steps 1, blocks per rank P-1 (the root), per link 1
//   Reduce         steps 1, blocks per rank 1, per link 1
//   Gather         steps 1, blocks per rank 1, per link 1
//   Scatter        steps 1, blocks per rank P-1 (the root), per link 1
//   AllToAll       steps 1, blocks per rank P-1, per link 1
//   Scan           steps 1, blocks per rank P-1 (rank 0), per link 1
//   Barrier        steps 1: a signal to everybody, a signal from everybody
//
// Two shot. The block is cut into P divisions, rank r works on division r.
//   four ranks, AllReduce:   scatter  d_q of a_r --> q;  rank r folds d_r
//                            gather   whole d_r --> the three others
//
//   AllReduce      steps 2, blocks per rank 2(P-1)/P, per link 2/P
//   Broadcast      steps 2 (P = 2: 1), blocks per rank 2(P-1)/P (the root), per link 2/P: the root
//                  gives each rank its division and everybody its own; each rank passes its
//                  division on
//   Reduce         steps 2, blocks per rank 1, per link 2/P: folded in parts, gathered at the root
//
// Mapped (direct_mapped.cc): the same without staging. A rank reads its operands in its peers'
// inputs and writes its result into their outputs; then it tells everybody, and it is done when
// everybody has told it, so that no buffer is given back while another still touches it. Blocks
// count what a rank reads from and writes to others.
//   AllReduce, Broadcast, Reduce (two shot)     steps 1, blocks 2(P-1)/P, 1, 1
//   Scan (two shot)                             steps 1, blocks 3(P-1)/P: on its division a rank
//                                               adds input after input to the sum before
//   AllGather, ReduceScatter (one shot)         steps 1, blocks P-1
//   Gather, Scatter (one shot)                  steps 1, blocks 1
//   AllToAll (one shot)                         steps 1, blocks P-1; not in place, where a peer
//                                               would write what its owner has yet to read
//
// Attached (direct_attached.cc): the same where ranks can only read each other's memory. What a
// rank has folded the others read in its output when it says so. Blocks count what a rank reads
// from others and sends to them.
//   AllReduce (two shot)                           steps 2, blocks 2(P-1)/P
//   ReduceScatter, AllGather, AllToAll (one shot)  steps 1, blocks P-1; AllToAll not in place
//   Broadcast, Scatter (one shot)                  steps 1, blocks 1
// In a Reduce, a Gather or a Scan one rank would make most copies alone. By slots two ranks share
// each, and that takes no longer.

#include "collectives/algorithms.h"

namespace tutti::collectives {

AlgorithmInfo oneShot();
AlgorithmInfo twoShot();

/// The mapped forms; nothing where `request.collective` has none under `algorithm`.
std::optional<PlanSpec> mappedSpec(const SpecRequest& request, Algorithm algorithm);
Program mappedProgram(const PlanSpec& spec, int rank);
Cost mappedCost(const PlanSpec& spec);

/// The attached forms, likewise.
std::optional<PlanSpec> attachedSpec(const SpecRequest& request, Algorithm algorithm);
Program attachedProgram(const PlanSpec& spec, int rank);
Cost attachedCost(const PlanSpec& spec);

}  // namespace tutti::collectives
