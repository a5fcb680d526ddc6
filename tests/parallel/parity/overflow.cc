#include "tests/parallel/parity/overflow.h"

#include <cmath>

#include "parallel/engine/agreement.h"

namespace tutti::parallel {

namespace {

/// Weights and moments of one rank.
std::vector<char> stateOf(SmallTraining& training) {
  std::vector<char> all;
  const auto add = [&](const Tensor& x) {
    const auto* const bytes = static_cast<const char*>(x.data);
    all.insert(all.end(), bytes, bytes + x.bytes());
  };
  ParameterStore& store = training.engine.store();
  for (size_t i = 0; i < store.parameterCount(); ++i) {
    add(store.master(store.parameter(i)));
    for (const Tensor& moment : store.state(store.parameter(i), *training.adam)) add(moment);
  }
  return all;
}

/// That of a parameter of which this rank has rows: `from`, or the next one.
Tensor gradientFrom(ParameterStore& store, int64_t from) {
  for (size_t i = 0; i < store.parameterCount(); ++i) {
    const size_t at = (static_cast<size_t>(from) + i) % store.parameterCount();
    const Tensor gradient = store.finishedGradient(store.parameter(at));
    if (gradient.count() > 0) return gradient;
  }
  fail(ErrorCode::Internal, "a rank has no rows of any parameter");
}

/// 0, or 1 when something is wrong on this rank.
double tryOne(SmallTraining& training, int64_t parameter, bool victim, double poison) {
  ParameterStore& store = training.engine.store();
  const std::vector<char> before = stateOf(training);
  const int64_t steps = store.steps();
  training.gradients();
  if (victim) {
    const Tensor gradient = gradientFrom(store, parameter);
    gradient.as<float>()[gradient.count() / 2] = static_cast<float>(poison);
  }
  const StepReport report = training.engine.update(*training.adam, 0.003);
  return !report.skipped || store.steps() != steps || stateOf(training) != before;
}

}  // namespace

SmallTraining::SmallTraining(DeviceMesh& mesh, const ModelOptions& modelOptions,
                             const ShardPolicy& policy, const ScaledTypes& scaled,
                             const PipelineOptions& pipeline)
    : model(makeModel(modelOptions)),
      engine(mesh, kernels, *model,
             {.policy = policy,
              .types = scaled.types,
              .reductionGroups = 4,
              .clipNorm = 0.5,
              .lossScaling = scaled.scaling,
              .pipeline = pipeline}),
      loader(text, contextOf(modelOptions), kSmallBatch, kRunSeed),
      firstScale(scaled.scaling.initial) {}

Finding overflowOnOneRank(const Arrangement& layout, const ModelOptions& model, int victim,
                          double poison) {
  Finding finding{"overflow", message(layout.name, ", ", poison, " on rank ", victim)};
  const RunOptions options = under(layout, {.model = model});
  for (const double wrong : onRanks(layout.mesh, false, [&](DeviceMesh& mesh) {
         SmallTraining training(mesh, options.model, options.policy, {}, options.pipeline);
         double found = 0;
         training.step();
         const int64_t tries =
             largestOf(mesh.communicator(AxisSet::all()),
                       static_cast<int64_t>(training.engine.store().parameterCount()));
         for (int64_t i = 0; i < tries; i += 3)
           found = std::max(found, tryOne(training, i, mesh.rank() == victim, poison));
         const StepReport good = training.step();
         const double scale = std::ldexp(training.firstScale, -static_cast<int>((tries + 2) / 3));
         return found + (good.skipped || good.lossScale != scale);
       }))
    finding.note(wrong, 0, "a rank");
  return finding;
}

}  // namespace tutti::parallel
