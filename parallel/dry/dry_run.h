#pragma once

// dryRun: what one rank of a job would hold, send and compute in a step, found by running its part
// of the program without data: the same modules, store and engine, over arenas of addresses without
// memory behind them, kernels that only count, and a mesh without other ranks. Seven billion
// parameters take a second, and no more memory than their names.

#include <map>
#include <string>

#include "parallel/engine/engine.h"
#include "parallel/kernels/dry/dry_kernels.h"

namespace tutti::parallel {

struct DryRunArgs {
  MeshShape mesh = {};
  int rank = 0;  ///< whose part it is
  EngineOptions engine;
  int64_t batch = 1;                     ///< sequences of a step, over all ranks
  int64_t context = 1;                   ///< tokens of one, at most the model's
  DeviceKind device = DeviceKind::Host;  ///< of a rank: copies and scratch are not alike on all
  bool calls = false;                    ///< are listed, too
};

/// Of the second step: the first finds weights that were just made, and all later ones are alike.
struct DryRun {
  int64_t parameters = 0;  ///< of the whole model
  TrainingMemory memory;
  StoreCounters counters;                      ///< about weights and gradients
  CollectiveCounters tensor;                   ///< the modules', of tensor parallelism
  Collectives collectives;                     ///< all there are
  std::map<std::string, KernelCount> kernels;  ///< by their names in Kernels
  IssueOrder calls;                            ///< where these were asked for

  KernelCount allKernels() const;
};

/// `model` must not have been declared to a store. Throws InvalidArgument as Engine does.
DryRun dryRun(const DryRunArgs& args, Model& model, Optimizer& optimizer);

}  // namespace tutti::parallel
