#pragma once

// How fast a rank's device computes, measured with the kernels and the shapes of a training's own.

#include "parallel/planner/rates.h"
#include "parallel/samples/sample.h"

namespace tutti::parallel {

/// What a micro-batch of one sequence of so many tokens takes, by kernels, in time of a core: all
/// ranks measure at the same time, as they compute, and what a rank waits for a core is not in it;
/// on a GPU from when a kernel is asked for until it has ended.
/// Kernels that are not measured take what the mean of the others takes for a byte. `type` is that
/// of weights, activations and gradients; the optimizer's state is float32. Collective.
DeviceRates measuredRates(SampleRank& rank, int64_t tokens, DType type);
/// The same for a dry run of so many ranks, measured by this process alone: where the model is too
/// large to be here, with the shapes of a smaller one.
DeviceRates ratesHere(SampleOptions options, int ranks, DType type);

}  // namespace tutti::parallel
