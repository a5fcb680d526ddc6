#pragma once

// Gradients that are not finite on one rank only, and what all ranks then do.

#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/parity/finding.h"
#include "tests/parallel/support/layouts.h"

namespace tutti::parallel {

struct ScaledTypes {
  StoreTypes types = {};
  LossScaling scaling = {.initial = 0x1p40};  ///< that halves many times
};

/// One rank of a training with a loss scale.
struct SmallTraining {
  SmallTraining(DeviceMesh& mesh, const ModelOptions& modelOptions, const ShardPolicy& policy,
                const ScaledTypes& scaled = {}, const PipelineOptions& pipeline = {});
  StepReport step() { return engine.step(loader, next++, *adam, 0.003); }
  /// The gradients of the next step alone.
  void gradients() { engine.gradients(loader, next++); }

  HostKernels kernels;
  std::unique_ptr<Model> model;
  Engine engine;
  std::unique_ptr<Optimizer> adam = makeAdamW({});
  std::vector<uint8_t> text = makeText();
  Loader loader;
  int64_t next = 0;
  double firstScale;
};

/// After a good step one element of the gradients that `victim` has is `poison`, of each parameter
/// in turn. What is found: ranks that do not skip the step, or whose weights, moments, steps or
/// scale are not what they should be.
Finding overflowOnOneRank(const Arrangement& layout, const ModelOptions& model, int victim,
                          double poison);

}  // namespace tutti::parallel
