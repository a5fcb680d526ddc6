#pragma once

// TrainingLayout: how the ranks of a job may share a training out, as a value: along which axes,
// which state, which schedule, what is recomputed. With a TrainingJob, which is what all
// layouts have in common, it says all that an Engine has to be told.

#include <memory>
#include <string>

#include "parallel/dry/dry_run.h"
#include "parallel/nn/model_options.h"

namespace tutti::parallel {

enum class OptimizerKind : uint8_t { AdamW, Momentum, Sgd };
const char* toString(OptimizerKind kind);  ///< "adamw", "momentum", "sgd"
std::unique_ptr<Optimizer> makeOptimizer(OptimizerKind kind);

/// What is trained, however it is shared out.
struct TrainingJob {
  ModelOptions model;
  StoreTypes types = DType::BFloat16;
  OptimizerKind optimizer = OptimizerKind::AdamW;
  int64_t batch = 1;                     ///< sequences of a step, over all ranks
  int64_t context = 1;                   ///< tokens of one, at most the model's
  DeviceKind device = DeviceKind::Host;  ///< of a rank, for what a dry run says that it holds

  double tokens() const { return static_cast<double>(batch) * static_cast<double>(context); }
};

struct TrainingLayout {
  MeshShape mesh = {};
  int zero = 0;  ///< the stage; what it shares out lies along fsdp, all else is replicated
  Reshard::When reshard = Reshard::AfterForward;  ///< of stage 3
  bool sequenceParallel = false;
  ContextAttention contextAttention = ContextAttention::Ring;  ///< of several ranks along cp
  Recompute recompute = Recompute::None;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int chunks = 0;        ///< stages of a rank; 0: as few as the schedule has
  int microBatches = 1;  ///< of a rank, in a step
  int rounds = 1;        ///< how often a step adds gradients over the ranks; divides microBatches

  /// "dp=2,tp=2, zero 1, 4 micro-batches": what is not usual about it.
  std::string describe() const;
  bool operator==(const TrainingLayout&) const = default;
};
const char* toString(Recompute recompute);  ///< "none", "attention", "block"

/// What a rank of that layout builds its model and its engine with.
ModelOptions modelUnder(const TrainingJob& job, const TrainingLayout& layout);
EngineOptions engineUnder(const TrainingJob& job, const TrainingLayout& layout);
/// One rank's part. Throws InvalidArgument where the job cannot be shared out so.
DryRun dryRunUnder(const TrainingJob& job, const TrainingLayout& layout, int rank);
/// The same in a time that does not grow with the number of micro-batches: beyond a few of each
/// rank of the pipeline the others hold nothing more, and each computes and sends what those did.
/// Of GPipe, which holds all of them, and where sequences do not divide, all are run.
class ShortDryRun {
 public:
  /// Runs few: from then on memory() is true.
  ShortDryRun(const TrainingJob& job, const TrainingLayout& layout, int rank);
  int rank() const { return rank_; }
  const TrainingMemory& memory() const { return run_.memory; }
  /// What all of them come to. Runs fewer, to see what each adds.
  DryRun whole() const;

 private:
  const TrainingJob job_;
  const TrainingLayout layout_;
  const int rank_;
  const int few_;  // micro-batches that were run
  const DryRun run_;
};

/// What a rank holds with no more micro-batches than fill the pipeline once: at most what it holds
/// with all, in less time than a ShortDryRun.
TrainingMemory leastMemory(const TrainingJob& job, const TrainingLayout& layout, int rank);

}  // namespace tutti::parallel
