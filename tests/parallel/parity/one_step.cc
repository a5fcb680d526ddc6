#include "tests/parallel/parity/one_step.h"

#include <cmath>

#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/loss.h"

namespace tutti::parallel {

namespace {

constexpr int kBatch = 2, kContext = 7;

/// A micro-batch. Each counts other tokens than the others.
struct Tokens {
  std::vector<int32_t> ids, labels;
  int64_t counted = 0;

  Tokens(int microBatch, int64_t vocabulary) {
    for (int i = 0; i < kBatch * kContext; ++i) {
      const int at = i + 100 * microBatch;
      ids.push_back(static_cast<int32_t>((at * at + 3 * at) % vocabulary));
      const bool counts = at % (microBatch + 2) != 0;
      labels.push_back(counts ? static_cast<int32_t>((at * 7 + 5) % vocabulary) : -1);
      counted += counts;
    }
  }
};

/// Weights that are far from their first values, by the place of each element in the whole.
void spreadWeights(ParameterStore& store) {
  const auto declared = store.declared();
  for (size_t p = 0; p < declared.size(); ++p) {
    const Parameter& parameter = *declared[p];
    if (parameter.id < 0) continue;
    auto* const values = store.master(parameter).as<double>();
    forEachRun(wholeOf(parameter.global), store.box(parameter), [&](const BoxRun& run) {
      for (int64_t i = 0; i < run.count; ++i)
        values[run.to + i] +=
            0.05 * std::sin(static_cast<double>(31 * p) + 0.7 * static_cast<double>(run.from + i));
    });
  }
  store.restored(0);
}

struct RankStep {
  double loss = 0, norm = 0;
  std::vector<StoredPart> parts;
  std::vector<std::string> names;  // of the whole model
};

/// What a rank needs for a step.
struct Training {
  HostKernels kernels;
  std::unique_ptr<Model> model;
  ParameterStore store;
  Arena scratch{"scratch"};
  ParallelContext context;
  ActivationStash stash;

  Training(DeviceMesh& mesh, const ModelOptions& options, const ShardPolicy& policy)
      : model(makeModel(options)),
        store(mesh, kernels, policy, DType::Float64),
        context{mesh, kernels, store, scratch} {
    model->declare(store);
    store.initialize(kRunSeed);
    spreadWeights(store);
  }

  void microBatch(Tokens tokens, int number, double scale) {
    stash.microBatch = number;
    const Tensor ids(tokens.ids.data(), DType::Int32, {kBatch, kContext});
    const Tensor labels(tokens.labels.data(), DType::Int32, {kBatch * kContext});
    const Tensor logits = model->forward(context, ids, stash);
    store.addLoss(crossEntropy(context, {.logits = logits,
                                         .labels = labels,
                                         .vocabulary = model->vocabulary(),
                                         .scale = scale}),
                  number);
    model->backward(context, logits, stash);
    if (stash.deferWeights) {
      stash.drain(context);
      stash.reset();
    }
    ensure(stash.empty() && scratch.usedBytes() == 0, "a micro-batch left something behind");
  }
};

/// Of ranks that have seen other tokens.
double wholeLoss(DeviceMesh& mesh, double part) {
  if (MeshCommunicator* parts = mesh.communicator(kTokenAxes))
    parts->allReduce(Purpose::PartLoss,
                     {.send = &part, .recv = &part, .count = 1, .type = DType::Float64});
  return part;
}

RankStep rankStep(DeviceMesh& mesh, const ModelOptions& model, const ShardPolicy& policy,
                  const StepOptions& o) {
  Training training(mesh, model, policy);
  training.stash.deferWeights = o.defer;
  const int64_t vocabulary = training.model->vocabulary();
  double counted = 0;
  for (int m = 0; m < o.groups * o.rounds; ++m)
    counted += static_cast<double>(Tokens(m, vocabulary).counted);
  ParameterStore& store = training.store;
  const AxisSet batch = policy.data() | AxisSet{Axis::Expert};
  const int local = o.groups / mesh.extent(batch);
  const int first = mesh.index(batch) * local;
  training.context.experts.perSequence = 1.0 / (kBatch * o.groups * o.rounds);
  store.beginStep(local, o.rounds);
  for (int m = 0; m < local * o.rounds; ++m)
    training.microBatch(Tokens(m / local * o.groups + first + m % local, vocabulary), m,
                        1 / counted);
  RankStep step{.loss = wholeLoss(mesh, store.finishLoss()) / counted,
                .norm = store.clip(0),
                .parts = {},
                .names = {}};
  store.checkReplicas();
  step.parts = storedParts(store, true);
  for (const Parameter* parameter : store.declared())
    if (parameter->tiedTo == nullptr) step.names.push_back(parameter->name);
  return step;
}

}  // namespace

LadderModel ladderGpt(int64_t heads) {
  return {
      message("gpt of ", heads, " heads"),
      GptOptions{
          .vocabulary = 37, .context = kContext, .layers = 2, .width = 4 * heads, .heads = heads}};
}

LadderModel ladderBranches(int64_t heads, Branches branches) {
  LadderModel model = ladderGpt(heads);
  std::get<GptOptions>(model.options).branches = branches;
  model.name += branches == Branches::Placed ? ", branches placed" : ", parallel branches";
  return model;
}

LadderModel ladderLlama(int64_t heads, int64_t kvHeads, bool tied) {
  return {message(tied ? "tied llama of " : "llama of ", heads, " and ", kvHeads, " heads"),
          LlamaOptions{.vocabulary = 41,
                       .context = kContext,
                       .layers = 2,
                       .width = 4 * heads,
                       .heads = heads,
                       .kvHeads = kvHeads,
                       .inner = 13,
                       .ropeBase = 50,
                       .tied = tied}};
}

WholeStep wholeStep(const LadderModel& model, const Arrangement& layout,
                    const StepOptions& options) {
  const ModelOptions own = cut(layout, model.options);
  const auto ranks = onRanks(layout.mesh, false, [&](DeviceMesh& mesh) {
    return rankStep(mesh, own, layout.policy, options);
  });
  WholeStep whole{
      .loss = ranks[0].loss, .norm = ranks[0].norm, .gradients = {}, .weights = {}, .names = {}};
  std::vector<std::vector<StoredPart>> parts;
  for (const RankStep& step : ranks) {
    ensure(step.loss == whole.loss && step.norm == whole.norm,
           "ranks report other losses or norms");
    parts.push_back(step.parts);
  }
  whole.names = ranks[0].names;
  whole.gradients = wholeValues(parts, &StoredPart::gradient);
  whole.weights = wholeValues(parts, &StoredPart::weight);
  return whole;
}

Finding float64Step(const WholeStep& one, const LadderModel& model, const Arrangement& layout,
                    const StepOptions& options) {
  std::string name = layout.name + ", " + model.name;
  if (options.rounds > 1) name += message(", ", options.rounds, " rounds");
  if (options.defer) name += ", deferred";
  Finding finding{"rung 1", name};
  const WholeStep many = wholeStep(model, layout, options);
  size_t parameter = 0;
  const double worst = worstDifference(one.gradients, many.gradients, &parameter);
  finding.note(worst, 1e-12, one.names[parameter]);
  finding.note(std::fabs(many.norm / one.norm - 1), 1e-12, "the norm");
  finding.note(std::fabs(many.loss / one.loss - 1), 1e-12, "the loss");
  finding.demand(many.names == one.names, "names of parameters");
  finding.demand(many.weights == one.weights, "weights");
  return finding;
}

}  // namespace tutti::parallel
