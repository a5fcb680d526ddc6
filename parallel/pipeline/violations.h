#pragma once

// What is wrong with a schedule. One without violations computes what one rank would, whatever time
// anything takes and however little is buffered, with weight gradients that are added up in the
// order of micro-batches.

#include <string>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace tutti::parallel {

struct Violation {
  int rank = 0;
  int index = 0;  ///< of the action in byRank[rank]; their number, when one is missing
  std::string what;
  std::string describe() const;  ///< "rank 1, action 5: B 2 comes before its F"
};

/// In this order, and none of a kind when there are some of an earlier one on which it builds:
/// - actions that make no sense here;
/// - on each rank: each micro-batch goes through each chunk once, forward then back, with the
///   transfers that it needs and no others; sends right behind what they send; a slot is taken by
///   one micro-batch at a time; weight gradients of a chunk come in the order of micro-batches;
/// - between each two ranks: receives come in the order of sends;
/// - no ranks wait for each other in a ring when nothing is buffered.
std::vector<Violation> violations(const Schedule& schedule);

/// Throws InvalidArgument with the first violations.
void validate(const Schedule& schedule);

}  // namespace tutti::parallel
