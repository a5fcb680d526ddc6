#pragma once

// How fast this machine computes, measured with the kernels and the shapes of a training's own.

#include "parallel/planner/rates.h"
#include "parallel/samples/sample.h"

namespace tutti::parallel {

/// What a micro-batch of one sequence of so many tokens takes, by kernels, in time of a core: all
/// ranks measure at the same time, as they compute, and what a rank waits for a core is not in it.
/// Kernels that are not measured take what the mean of the others takes for a byte. Collective;
/// nothing is measured in a dry run.
DeviceRates measuredRates(SampleRank& rank, int64_t tokens);

}  // namespace tutti::parallel
