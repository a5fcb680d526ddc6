#include "parallel/engine/engine.h"

#include <bit>

#include "parallel/mesh/redistribute.h"
#include "parallel/nn/loss.h"

namespace tutti::parallel {

int reductionGroupsFor(int ranks, bool deterministic) {
  require(ranks > 0, "a mesh of ", ranks, " ranks");
  require(!deterministic || std::has_single_bit(static_cast<unsigned>(ranks)),
          "deterministic mode adds gradients in a balanced tree, which needs 1, 2, 4, 8, ... "
          "data-parallel ranks, not ",
          ranks);
  const int least = deterministic ? kDeterministicGroups : 4;
  return (least + ranks - 1) / ranks * ranks;
}

int checkReductionGroups(int groups, int ranks, bool deterministic) {
  const int chosen = reductionGroupsFor(ranks, deterministic);
  if (groups == 0) return chosen;
  require(groups > 0 && groups % ranks == 0, groups, " micro-batches do not divide evenly over ",
          ranks, " ranks");
  require(!deterministic || std::has_single_bit(static_cast<unsigned>(groups)),
          "deterministic mode needs a power of two of micro-batches, not ", groups);
  return groups;
}

Engine::Engine(DeviceMesh& mesh, Kernels& kernels, Model& model, const EngineOptions& options)
    : mesh_(mesh),
      kernels_(kernels),
      model_(model),
      options_(options),
      data_(options.policy.data()),
      groups_(checkReductionGroups(options.reductionGroups, mesh.extent(data_),
                                   options.policy.deterministic)),
      scratch_("scratch", mesh.backing()),
      store_(mesh, kernels, options.policy, options.types),
      saved_(mesh.backing()),
      context_{mesh_, kernels_, store_, scratch_} {
  model.declare(store_);
  store_.initialize(options.seed);
}

double Engine::gradients(Loader& loader, int64_t step) {
  const int all = groups_ * options_.rounds;
  require(loader.globalBatch() >= all, "a batch of ", loader.globalBatch(),
          " sequences cannot be cut into ", all, " micro-batches");
  const int local = groups_ / mesh_.extent(data_);
  const int first = mesh_.index(data_) * local;
  const int64_t counted = loader.countedTokens(step);
  require(counted > 0, "the batch of step ", step, " has no label that counts");
  const auto tokens = static_cast<double>(counted);
  const double perToken = factor(MutationPoint::GradientPerToken, 1 / tokens);
  store_.beginStep(local, options_.rounds);
  context_.tensor.counters = {};
  for (int m = 0; m < local * options_.rounds; ++m) {
    const int round = m / local;
    const Batch batch = loader.next(step, {round * groups_ + first + m % local, all});
    saved_.microBatch = m;
    const Tensor logits = model_.forward(context_, batch.tokenIds, saved_);
    store_.addLoss(crossEntropy(context_, {.logits = logits,
                                           .labels = batch.labels,
                                           .vocabulary = model_.vocabulary(),
                                           .scale = perToken}),
                   m);
    model_.backward(context_, logits, saved_);
    ensure(saved_.empty(), "a micro-batch left ", saved_.untilBackward.usedBytes(), " and ",
           saved_.untilWeights.usedBytes(), " bytes behind");
  }
  return store_.finishLoss() * factor(MutationPoint::LossPerToken, 1 / tokens);
}

StepReport Engine::step(Loader& loader, int64_t step, Optimizer& optimizer, double learningRate) {
  StepReport report;
  report.loss = gradients(loader, step);
  report.tokens = loader.countedTokens(step);
  report.gradientNorm = store_.clip(options_.clipNorm);
  store_.step(optimizer, learningRate);
  report.counters = store_.counters();
  report.tensor = context_.tensor.counters;
  return report;
}

TrainingMemory Engine::memory() const {
  return {.store = store_.memory(),
          .untilBackward = saved_.untilBackward.use(),
          .untilWeights = saved_.untilWeights.use(),
          .scratch = scratch_.use()};
}

double Engine::evaluate(Windows& windows, int64_t sequences) {
  require(windows.countedTokens() > 0, "no label of the validation text counts");
  const int ranks = mesh_.extent(data_), rank = mesh_.index(data_);
  ExactSum sum;
  for (int64_t all = 0; all < windows.count(); all += ranks * sequences) {
    const int64_t begin = all + rank * sequences;
    const bool mine = begin < windows.count();
    // All ranks take part where weights have to be gathered.
    if (!mine && !store_.policy().optimizer) break;
    const Batch batch = windows.read(mine ? begin : 0, sequences);
    saved_.reset();
    const double loss =
        crossEntropy(context_, {.logits = model_.forward(context_, batch.tokenIds, saved_),
                                .labels = batch.labels,
                                .vocabulary = model_.vocabulary(),
                                .gradient = false});
    if (mine) sum.add(loss);
  }
  saved_.reset();
  auto limbs = sum.limbs();
  if (MeshCommunicator* group = mesh_.communicator(data_))
    group->allReduce(
        MutationPoint::ValidationSum,
        {.send = limbs.data(), .recv = limbs.data(), .count = limbs.size(), .type = DType::Int64});
  const auto tokens = static_cast<double>(windows.countedTokens());
  return ExactSum::fromLimbs(limbs).value() * factor(MutationPoint::ValidationPerToken, 1 / tokens);
}

Tensor Engine::logits(const Tensor& tokenIds) {
  saved_.reset();
  const Tensor part = model_.forward(context_, tokenIds, saved_);
  Shape whole = part.shape;
  whole[-1] = model_.vocabulary();
  return redistribute(MutationPoint::LogitGather, mesh_, part, whole, {}, saved_.untilWeights);
}

}  // namespace tutti::parallel
