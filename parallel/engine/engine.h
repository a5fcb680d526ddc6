#pragma once

// Engine: one rank's training loop over a model. A step is one gradient round: the global batch is
// cut into `reductionGroups` micro-batches, consecutive ones on each data-parallel rank, so that
// the shape of the computation does not depend on the number of ranks.

#include <memory>

#include "parallel/data/loader.h"
#include "parallel/nn/module.h"

namespace tutti::parallel {

struct EngineOptions {
  ShardPolicy policy;
  DType type = DType::Float32;
  int reductionGroups =
      0;                ///< micro-batches of the global batch; 0: chosen by reductionGroupsFor()
  double clipNorm = 1;  ///< 0: no clipping
  uint64_t seed = 1;
};

/// Micro-batches that deterministic mode takes on its own: up to so many ranks the same number, and
/// so the same bits.
inline constexpr int kDeterministicGroups = 8;

/// The least multiple of `ranks` that is at least 4, or kDeterministicGroups when `deterministic`.
/// Throws InvalidArgument when deterministic mode cannot have a balanced tree, which needs powers
/// of two.
int reductionGroupsFor(int ranks, bool deterministic);
/// `groups`, or the choice above when it is 0. Throws InvalidArgument when `ranks` do not divide
/// it, or deterministic mode cannot add up so many.
int checkReductionGroups(int groups, int ranks, bool deterministic);

struct StepReport {
  double loss = 0;          ///< mean over the global batch, nats per token, before the update
  double gradientNorm = 0;  ///< before clipping
  StoreCounters counters;
};

class Engine {
 public:
  /// `model` must outlive the engine. Not collective, except that the mesh's memory may be. Throws
  /// InvalidArgument when a deterministic policy meets a communicator that is not deterministic.
  Engine(DeviceMesh& mesh, Kernels& kernels, Module& model, const EngineOptions& options);

  /// Gradients of global batch number `step`, left in the store, and its mean loss. Collective.
  /// Throws InvalidArgument when the batch has fewer sequences than there are micro-batches.
  double gradients(Loader& loader, int64_t step);
  /// A whole step: gradients, clipping, update. Collective.
  StepReport step(Loader& loader, int64_t step, Optimizer& optimizer, double learningRate);
  /// Mean loss over `windows`, which the ranks share out in batches of `sequences`. The batches'
  /// losses are added exactly, so the result does not depend on the number of ranks. Collective.
  double evaluate(Windows& windows, int64_t sequences);
  /// Logits [batch, context, vocabulary], valid until the next call of anything.
  Tensor logits(const Tensor& tokenIds);

  ParameterStore& store() { return store_; }
  Saved& saved() { return saved_; }
  Arena& scratch() { return scratch_; }
  int reductionGroups() const { return groups_; }

 private:
  DeviceMesh& mesh_;
  Kernels& kernels_;
  Module& model_;
  EngineOptions options_;
  int groups_;
  Arena scratch_{"scratch"};
  ParameterStore store_;
  Saved saved_;
  ParallelContext context_;
};

}  // namespace tutti::parallel
