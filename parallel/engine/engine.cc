#include "parallel/engine/engine.h"

#include <bit>
#include <numeric>

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
      batch_(options.policy.data() | AxisSet{Axis::Expert}),
      groups_(checkReductionGroups(options.reductionGroups, mesh.extent(batch_),
                                   options.policy.deterministic)),
      scratch_("scratch", mesh.backing()),
      store_(mesh, kernels, options.policy, options.types),
      context_{mesh_, kernels_, store_, scratch_},
      pipeline_(context_, model, options.pipeline, groups_ / mesh.extent(batch_) * options.rounds,
                options.types.weights),
      background_(mesh) {
  if (options.lossScaling) scale_.emplace(*options.lossScaling);
  store_.place(pipeline_.places());
  model.declare(store_);
  pipeline_.connect();
  store_.initialize(options.seed);
}

double Engine::gradients(Loader& loader, int64_t step) {
  const int all = groups_ * options_.rounds;
  require(loader.globalBatch() >= all, "a batch of ", loader.globalBatch(),
          " sequences cannot be cut into ", all, " micro-batches");
  const int local = groups_ / mesh_.extent(batch_);
  const int first = mesh_.index(batch_) * local;
  const int64_t counted = loader.countedTokens(step);
  require(counted > 0, "the batch of step ", step, " has no label that counts");
  const auto tokens = static_cast<double>(counted);
  const double perToken = factor(Purpose::GradientPerToken, 1 / tokens) * lossScale();
  store_.beginStep(local, options_.rounds);
  context_.tensor.counters = context_.experts.counters = {};
  beginRouters(loader.globalBatch());
  pipeline_.run({.batch =
                     [&](int m) {
                       const int round = m / local;
                       return loader.next(step, {round * groups_ + first + m % local, all});
                     },
                 .perToken = perToken});
  return wholeLoss(store_.finishLoss()) * factor(Purpose::LossPerToken, 1 / tokens);
}

/// Of the last stage's ranks, each of which has a part of the tokens; the others have none.
double Engine::wholeLoss(double part) {
  if (MeshCommunicator* parts = mesh_.communicator(kTokenAxes | AxisSet{Axis::Pipeline}))
    parts->allReduce(Purpose::PartLoss,
                     {.send = &part, .recv = &part, .count = 1, .type = DType::Float64});
  return part;
}

double RouterReport::dropped() const {
  return choices - std::accumulate(loads.begin(), loads.end(), 0.0);
}

/// What the loss is multiplied by before backward.
double Engine::lossScale() const {
  return scale_ ? factor(Purpose::LossScale, scale_->value()) : 1;
}

void Engine::beginRouters(int64_t sequences) {
  sequences_ = sequences;
  context_.experts.tally = {.loads = std::vector<double>(model_.expertCount())};
  if (model_.expertCount() == 0) return;
  context_.experts.perSequence =
      factor(Purpose::RouterGradientPerSequence, 1 / static_cast<double>(sequences)) * lossScale();
}

/// Of ranks that see other tokens or have other blocks; those of tensor parallelism did the same.
RouterReport Engine::wholeTally() {
  const RouterTally& own = context_.experts.tally;
  if (own.loads.empty()) return {};
  std::vector<double> all{own.balance, own.z, own.choices};
  all.insert(all.end(), own.loads.begin(), own.loads.end());
  if (MeshCommunicator* parts = mesh_.communicator(batch_ | AxisSet{Axis::Context, Axis::Pipeline}))
    parts->allReduce(
        Purpose::RouterTallies,
        {.send = all.data(), .recv = all.data(), .count = all.size(), .type = DType::Float64});
  const auto mean = [&](double sum) {
    return sum * factor(Purpose::RouterTallyPerSequence, 1 / static_cast<double>(sequences_));
  };
  return {.balance = mean(all[0]),
          .z = mean(all[1]),
          .choices = all[2],
          .loads = {all.begin() + 3, all.end()}};
}

StepReport Engine::update(Optimizer& optimizer, double learningRate) {
  StepReport report;
  const Trace::Span span(mesh_.trace(), "optimizer");
  if (scale_) report.lossScale = scale_->value();
  report.gradientNorm =
      store_.clip(options_.clipNorm, scale_ ? std::optional(scale_->value()) : std::nullopt);
  report.skipped = store_.overflowed();
  if (!report.skipped) store_.step(optimizer, learningRate);
  if (scale_) report.lost = !scale_->update(report.skipped);
  report.counters = store_.counters();
  report.tensor = context_.tensor.counters;
  report.experts = context_.experts.counters;
  report.router = wholeTally();
  return report;
}

StepReport Engine::step(Loader& loader, int64_t step, Optimizer& optimizer, double learningRate) {
  const Trace::Span span(mesh_.trace(), "step");
  const Waited before = mesh_.trace().waited();
  const double loss = gradients(loader, step);
  StepReport report = update(optimizer, learningRate);
  report.waited = mesh_.trace().waited().since(before);
  report.loss = loss;
  report.tokens = loader.countedTokens(step);
  return report;
}

TrainingMemory Engine::memory() const {
  return {.store = store_.memory(),
          .untilBackward = pipeline_.untilBackward(),
          .untilWeights = pipeline_.untilWeights(),
          .scratch = scratch_.use(),
          .between = pipeline_.betweenBytes(),
          .saving = background_.bytes()};
}

double Engine::evaluate(Windows& windows, int64_t sequences) {
  return *evaluate(windows, sequences, [](int64_t) { return false; });
}

std::optional<double> Engine::evaluate(Windows& windows, int64_t sequences,
                                       const std::function<bool(int64_t)>& stop) {
  require(windows.countedTokens() > 0, "no label of the validation text counts");
  const int ranks = mesh_.extent(batch_), rank = mesh_.index(batch_);
  ExactSum sum;
  for (int64_t all = 0; all < windows.count(); all += ranks * sequences) {
    if (stop(all)) {
      forget();
      return std::nullopt;
    }
    const int64_t begin = all + rank * sequences;
    const bool mine = begin < windows.count();
    // All ranks take part where weights have to be gathered, or tokens go to the ranks of experts.
    if (!mine && !store_.policy().optimizer && mesh_.extent(Axis::Expert) == 1) continue;
    const Batch batch = windows.read(mine ? begin : 0, sequences);
    const Tensor logits = pipeline_.logits(batch.tokenIds);
    if (!pipeline_.hasLastStage()) continue;
    const double loss = crossEntropy(context_, {.logits = logits,
                                                .labels = batch.labels,
                                                .vocabulary = model_.vocabulary(),
                                                .gradient = false});
    if (mine) sum.add(loss);
  }
  forget();
  auto limbs = sum.limbs();
  if (MeshCommunicator* group = mesh_.communicator(batch_ | AxisSet{Axis::Context, Axis::Pipeline}))
    group->allReduce(
        Purpose::ValidationSum,
        {.send = limbs.data(), .recv = limbs.data(), .count = limbs.size(), .type = DType::Int64});
  const auto tokens = static_cast<double>(windows.countedTokens());
  return ExactSum::fromLimbs(limbs).value() * factor(Purpose::ValidationPerToken, 1 / tokens);
}

Tensor Engine::logits(const Tensor& tokenIds) {
  return wholeLogits(pipeline_.logits(tokenIds), tokenIds.shape);
}

Tensor Engine::nextLogits(const Tensor& tokenIds, KeyValues& before) {
  const int64_t count = tokenIds.shape[1];
  Tensor last;
  if (goesOn()) {
    last = wholeLogits(pipeline_.logits(tokenIds, &before), {1, 1});
    before.advance(count);
  } else {
    ensure(before.seen() == 0, "what was seen before is not kept");
    last = logits(tokenIds).part(1, count - 1, 1);
  }
  const Tensor wide = pipeline_.memory().allocate(DType::Float64, last.shape);
  kernels_.copy(last, wide);
  return wide;
}

namespace {

/// Collectives send what is contiguous.
Tensor withoutGaps(Kernels& kernels, const Tensor& x, Arena& memory) {
  if (x.contiguous()) return x;
  Tensor packed = memory.allocate(x.type, x.shape);
  packed.layout = x.layout;
  kernels.copy(x, packed);
  return packed;
}

}  // namespace

/// Of the last stage's part [tokens, part of the vocabulary], on all ranks.
Tensor Engine::wholeLogits(const Tensor& part, const Shape& tokens) {
  const Shape own = context_.sequences.own(tokens);
  const Shape shape{tokens[0], tokens[1], model_.vocabulary()};
  Tensor whole;
  if (pipeline_.hasLastStage()) {
    const Tensor rows =
        redistribute(Purpose::LogitGather, mesh_, withoutGaps(kernels_, part, pipeline_.memory()),
                     {own[0], own[1], shape[2]}, {}, pipeline_.memory());
    whole = context_.sequences.whole(Purpose::PositionLogits, kernels_, rows, shape[1],
                                     pipeline_.memory());
  } else {
    whole = pipeline_.memory().allocate(options_.types.weights, shape);
    kernels_.fillZero(whole);
  }
  if (MeshCommunicator* stages = mesh_.communicator({Axis::Pipeline}))
    stages->allReduce(Purpose::StageLogits, {.send = whole.data,
                                             .recv = whole.data,
                                             .count = static_cast<size_t>(whole.count()),
                                             .type = whole.type});
  return whole;
}

}  // namespace tutti::parallel
