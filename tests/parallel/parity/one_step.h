#pragma once

// Rung 1, one step: the gradients that a layout computes, in float64, of batches with few tokens,
// of which some do not count, and each rank has another number of them.

#include <string>

#include "tests/parallel/parity/finding.h"
#include "tests/parallel/support/layouts.h"

namespace tutti::parallel {

struct LadderModel {
  std::string name;
  ModelOptions options;
};

// Nothing divides: an odd vocabulary, 2 * 7 tokens in a micro-batch, an inner width of 13.
/// Of width 4 * heads.
LadderModel ladderGpt(int64_t heads);
/// The same with branches that do not wait for each other, placed on two ranks or not.
LadderModel ladderBranches(int64_t heads, Branches branches);
LadderModel ladderLlama(int64_t heads, int64_t kvHeads, bool tied = false);

struct StepOptions {
  int groups = 4, rounds = 1;  ///< micro-batches of a round; rounds
  bool defer = false;          ///< weight gradients come after backward
};

/// What all ranks have together.
struct WholeStep {
  double loss = 0, norm = 0;
  Values gradients, weights;
  std::vector<std::string> names;  ///< of the parameters
};
/// Throws what a rank throws, and Internal where ranks do not have the same.
WholeStep wholeStep(const LadderModel& model, const Arrangement& layout,
                    const StepOptions& options);

/// Against `one`, a single rank's of as many micro-batches in all: gradients, norm and loss within
/// 1e-12, weights equal.
Finding float64Step(const WholeStep& one, const LadderModel& model, const Arrangement& layout,
                    const StepOptions& options);

}  // namespace tutti::parallel
