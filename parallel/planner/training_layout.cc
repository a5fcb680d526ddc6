#include "parallel/planner/training_layout.h"

#include <algorithm>

namespace tutti::parallel {

namespace {

std::string sharing(const TrainingLayout& layout) {
  if (layout.zero == 0) return "";
  const char* stay = layout.zero == 3 && layout.reshard == Reshard::Never ? ", no reshard" : "";
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
    case Recompute::None: return "none";
    case Recompute::Attention: return "attention";
    case Recompute::Block: return "block";
  }
  return "?";
}

std::string TrainingLayout::describe() const {
  std::string text = mesh.describe() + sharing(*this) + pipeline(*this);
  if (sequenceParallel && mesh.ranks(kTensorAxes) > 1) text += ", sequence parallel";
  if (contextAttention == ContextAttention::Heads && mesh[Axis::Context] > 1)
    text += ", heads exchanged";
  if (microBatches > 1) text += message(", ", microBatches, " micro-batches");
  if (rounds > 1) text += message(" in ", rounds, " rounds");
  if (recompute != Recompute::None) text += message(", recompute ", toString(recompute));
  return text;
}

ModelOptions modelUnder(const TrainingJob& job, const TrainingLayout& layout) {
  ModelOptions model = job.model;
  std::visit(
      [&](auto& options) {
        options.sequenceParallel = layout.sequenceParallel;
        options.recompute = layout.recompute;
        options.contextAttention = layout.contextAttention;
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
                 .context = job.context,
                 .device = job.device},
                *model, *makeOptimizer(job.optimizer));
}

namespace {

// Of a rank, in units of the stages: beyond them schedules hold no
// more at a time, but for those of which all are run.
constexpr int kRunsAround = 3;

/// Whether a step with fewer micro-batches is the same but shorter.
bool canBeShort(const TrainingJob& job, const TrainingLayout& layout) {
  const bool sameRounds = layout.rounds == 1 || layout.rounds == layout.microBatches;
  return sameRounds && job.batch % layout.microBatches == 0;
}

/// As many beyond whole rounds of the pipeline as all are: schedules depend on that.
int fewOf(const TrainingJob& job, const TrainingLayout& layout) {
  const int stages = layout.mesh[Axis::Pipeline];
  const int chunks = layout.schedule == ScheduleKind::Interleaved ? std::max(2, layout.chunks) : 1;
  const int few = kRunsAround * chunks * stages + layout.microBatches % stages;
  const bool holdsAll = stages > 1 && (layout.schedule == ScheduleKind::GPipe ||
                                       layout.schedule == ScheduleKind::ZeroBubbleV);
  const bool all = holdsAll || !canBeShort(job, layout);
  return all ? layout.microBatches : std::min(few, layout.microBatches);
}

/// The same with so many micro-batches of the same size.
DryRun runOf(TrainingJob job, TrainingLayout layout, int microBatches, int rank) {
  if (microBatches == layout.microBatches) return dryRunUnder(job, layout, rank);
  job.batch = job.batch / layout.microBatches * microBatches;
  if (layout.rounds > 1) layout.rounds = microBatches;
  layout.microBatches = microBatches;
  return dryRunUnder(job, layout, rank);
}

/// a + times (a - b), of numbers that grow by the same each time.
template <class Number>
void extend(Number& a, const Number& b, int64_t times) {
  a = static_cast<Number>(static_cast<int64_t>(a) +
                          times * (static_cast<int64_t>(a) - static_cast<int64_t>(b)));
}

void extend(CollectiveCount& a, const CollectiveCount& b, int64_t times) {
  extend(a.calls, b.calls, times);
  extend(a.bytes, b.bytes, times);
}

void extend(CollectiveCounters& a, const CollectiveCounters& b, int64_t times) {
  extend(a.allReduce, b.allReduce, times);
  extend(a.reduceScatter, b.reduceScatter, times);
  extend(a.allGather, b.allGather, times);
  extend(a.allToAll, b.allToAll, times);
  extend(a.sent, b.sent, times);
}

void extend(StoreCounters& a, const StoreCounters& b, int64_t times) {
  extend(a.allReduce, b.allReduce, times);
  extend(a.reduceScatter, b.reduceScatter, times);
  extend(a.allGather, b.allGather, times);
  extend(a.partialAllReduce, b.partialAllReduce, times);
  extend(a.startedEarly, b.startedEarly, times);
  extend(a.finishedEarly, b.finishedEarly, times);
  extend(a.prefetched, b.prefetched, times);
}

void extend(KernelCount& a, const KernelCount& b, int64_t times) {
  extend(a.calls, b.calls, times);
  extend(a.bytesRead, b.bytesRead, times);
  extend(a.bytesWritten, b.bytesWritten, times);
  a.gemmFlops += static_cast<double>(times) * (a.gemmFlops - b.gemmFlops);
}

}  // namespace

TrainingMemory leastMemory(const TrainingJob& job, const TrainingLayout& layout, int rank) {
  const int all = layout.microBatches, stages = layout.mesh[Axis::Pipeline];
  return runOf(job, layout, canBeShort(job, layout) ? std::min(stages, all) : all, rank).memory;
}

ShortDryRun::ShortDryRun(const TrainingJob& job, const TrainingLayout& layout, int rank)
    : job_(job),
      layout_(layout),
      rank_(rank),
      few_(fewOf(job, layout)),
      run_(runOf(job, layout, few_, rank)) {}

DryRun ShortDryRun::whole() const {
  DryRun run = run_;
  if (few_ == layout_.microBatches) return run;
  const int stages = layout_.mesh[Axis::Pipeline];
  const DryRun fewer = runOf(job_, layout_, few_ - stages, rank_);
  const int64_t times = (layout_.microBatches - few_) / stages;
  extend(run.counters, fewer.counters, times);
  extend(run.tensor, fewer.tensor, times);
  for (auto& [axes, counted] : run.collectives) extend(counted, fewer.collectives.at(axes), times);
  for (auto& [name, count] : run.kernels) extend(count, fewer.kernels.at(name), times);
  return run;
}

}  // namespace tutti::parallel
