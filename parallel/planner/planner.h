#pragma once

// Choosing a layout. planTraining() runs the layouts of some devices dry, leaves out those that
// hold more than a device has, and ranks the others by the time of a step.
//
// The search: of each family (layout_space.h) the member that holds least is run; where it does not
// fit, none does. Of the others the members are run, each as it computes least among those that
// fit. Then the fastest are varied, in one respect at a time, and once more what is then the
// fastest.

#include <string>
#include <vector>

#include "parallel/planner/layout_space.h"
#include "parallel/planner/predictor.h"

namespace tutti::parallel {

struct PlannerOptions {
  LayoutSpace space;
  size_t memoryBytes = 0;  ///< that a rank may hold
};

/// A family that does not fit.
struct Misfit {
  TrainingLayout layout;  ///< its member that holds least
  TrainingMemory memory;  ///< of the first rank that holds too much
};

struct Plan {
  std::vector<Prediction> fitting;  ///< the fastest first
  std::vector<Misfit> misfits;      ///< that which holds least first
  int dryRuns = 0;
};

/// Throws InvalidArgument where no layout divides, and, as Engine does, where none is taken.
Plan planTraining(Predictor& predictor, const PlannerOptions& options);

}  // namespace tutti::parallel
