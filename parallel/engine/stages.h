#pragma once

// How the units of a model are dealt out to the stages of a pipeline.

#include <vector>

#include "parallel/nn/module.h"
#include "parallel/pipeline/builders.h"

namespace tutti::parallel {

struct PipelineOptions {
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int chunks = 0;                ///< stages of a rank; 0: as few as the schedule has
  std::vector<int> layers = {};  ///< of each stage; none: as evenly as their costs go
  Costs costs = {};              ///< that ZB-V suits its order to
};

/// The units of each of `stages`: so many layers (units between the first and the last one) as
/// `layers` says, the first unit with the first stage and the last one with the last; without
/// `layers` so that the stage that takes longest takes as little as can be. Throws InvalidArgument
/// when a stage would have no layer, and when `layers` are not of this model or of so many stages.
std::vector<UnitRange> cutIntoStages(const std::vector<int64_t>& unitCosts, int stages,
                                     const std::vector<int>& layers);

}  // namespace tutti::parallel
