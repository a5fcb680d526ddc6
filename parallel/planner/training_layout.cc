#include "parallel/planner/training_layout.h"

namespace tutti::parallel {

namespace {

std::string sharing(const TrainingLayout& layout) {
  if (layout.zero == 0) return "";
  const char* stay = layout.zero == 3 && layout.reshard == Reshard::Never ? ", weights stay" : "";
  return message(", zero ", layout.zero, stay);
}

std::string pipeline(const TrainingLayout& layout) {
  if (layout.mesh[Axis::Pipeline] == 1) return "";
  const bool chunks = layout.chunks > 0 && layout.schedule == ScheduleKind::Interleaved;
  return message(", ", toString(layout.schedule),
                 chunks ? message(" of ", layout.chunks, " chunks") : "");
}

}  // namespace

const char* toString(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::AdamW: return "adamw";
    case OptimizerKind::Momentum: return "momentum";
    case OptimizerKind::Sgd: return "sgd";
  }
  return "?";
}

std::unique_ptr<Optimizer> makeOptimizer(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::AdamW: return makeAdamW({});
    case OptimizerKind::Momentum: return makeSgd({.momentum = 0.9});
    case OptimizerKind::Sgd: break;
  }
  return makeSgd({});
}

const char* toString(Recompute recompute) {
  switch (recompute) {
    case Recompute::None: return "nothing";
    case Recompute::Attention: return "attention";
    case Recompute::Block: return "blocks";
  }
  return "?";
}

std::string TrainingLayout::describe() const {
  std::string text = mesh.describe() + sharing(*this) + pipeline(*this);
  if (sequenceParallel && mesh.ranks(kTensorAxes) > 1) text += ", sequences cut";
  if (microBatches > 1) text += message(", ", microBatches, " micro-batches");
  if (rounds > 1) text += message(" in ", rounds, " rounds");
  if (recompute != Recompute::None) text += message(", ", toString(recompute), " computed again");
  return text;
}

ModelOptions modelUnder(const TrainingJob& job, const TrainingLayout& layout) {
  ModelOptions model = job.model;
  std::visit(
      [&](auto& options) {
        options.sequenceParallel = layout.sequenceParallel;
        options.recompute = layout.recompute;
      },
      model);
  return model;
}

EngineOptions engineUnder(const TrainingJob& job, const TrainingLayout& layout) {
  ShardPolicy policy = ShardPolicy::zero(layout.zero);
  policy.reshard.when = layout.reshard;
  require(layout.rounds > 0 && layout.microBatches % layout.rounds == 0, layout.microBatches,
          " micro-batches do not make ", layout.rounds, " rounds");
  const int data = layout.mesh.ranks(policy.data() | AxisSet{Axis::Expert});
  return {.policy = policy,
          .types = job.types,
          .reductionGroups = layout.microBatches / layout.rounds * data,
          .rounds = layout.rounds,
          .pipeline = {.schedule = layout.schedule, .chunks = layout.chunks}};
}

DryRun dryRunUnder(const TrainingJob& job, const TrainingLayout& layout, int rank) {
  const auto model = makeModel(modelUnder(job, layout));
  return dryRun({.mesh = layout.mesh,
                 .rank = rank,
                 .engine = engineUnder(job, layout),
                 .batch = job.batch,
                 .context = job.context},
                *model, *makeOptimizer(job.optimizer));
}

std::vector<int> ranksAlong(const MeshShape& mesh, AxisSet axes) {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const MeshPlace place = placeOf(mesh, rank);
    bool along = true;
    for (int i = 0; i < kAxisCount; ++i)
      along = along && (axes.contains(static_cast<Axis>(i)) || place[static_cast<size_t>(i)] == 0);
    if (along) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace tutti::parallel
