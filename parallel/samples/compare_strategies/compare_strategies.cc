// compare_strategies: every strategy on one model with AdamW, each step of one after that of
// another. One table has what a rank holds, beside the formulas of the books; another has what it
// sends, tokens a second, how long ranks wait and for what, and what the planner says by rates
// measured at the start. `compare_strategies --ranks 4`, and with `--experts 8` of a mixture of
// experts; with `--device dry` what is known of ranks that are not there: memory, bytes and the
// planner's time. On GPUs ranks wait for each other on streams, which
// nobody times: idle is then what their threads wait for.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>

#include "parallel/checkpoint/pending_file.h"
#include "parallel/engine/describe.h"
#include "parallel/samples/compare_strategies/strategies.h"
#include "parallel/samples/compare_strategies/strategy_tables.h"
#include "parallel/samples/device.h"
#include "parallel/samples/elements.h"
#include "parallel/samples/fsdp_tp/layout_comparison.h"
#include "parallel/samples/options/choice_flag.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/planning/measured_rates.h"

namespace {

using namespace tutti::parallel;

constexpr double kRate = 0.001;
/// Of experts, unless --capacity says another: with one a rank's memory does not depend on the
/// data.
constexpr double kCapacity = 1.25;

/// Of each communicator, of which there are some thirty at a time: a GPU has as many for the last
/// one as for the first.
constexpr int kGpuBlocks = 4;

struct CompareOptions {
  std::string json;  ///< a file, "-" for standard output, or empty
  bool markdown = false;
  DType type = DType::Float32;
};

/// Of the weights' type are the gradients, too; masters and moments stay float32.
TrainingJob jobOf(const SampleOptions& o, DType type) {
  return {.model = o.model,
          .types = {type, DType::Float32, type},
          .optimizer = OptimizerKind::AdamW,
          .batch = o.batch,
          .context = o.model.context,
          .device = kindOf(o.device)};
}

/// The ranks in every arrangement. Strategies that arrange them alike share its communicators.
class Arrangements {
 public:
  explicit Arrangements(DeviceMesh& ranks) : ranks_(ranks) {}
  /// Collective where it is new.
  DeviceMesh& as(const MeshShape& shape) {
    if (ranks_.shape() == shape) return ranks_;
    const auto found = std::ranges::find(others_, shape, &DeviceMesh::shape);
    return found != others_.end() ? *found : others_.emplace_back(ranks_.arranged(shape));
  }

 private:
  DeviceMesh& ranks_;
  std::list<DeviceMesh> others_;
};

/// The training under one strategy.
struct ComparedStrategy {
  ComparedStrategy(SampleRank& of, Arrangements& ranks, const TrainingJob& all, Strategy of_,
                   const std::vector<uint8_t>& tokens)
      : strategy(std::move(of_)),
        job(all),
        mesh(ranks.as(strategy.layout.mesh)),
        model(makeModel(modelUnder(job, strategy.layout))),
        engine(mesh, of.kernels, *model, engineOptions()),
        loader(tokens, job.context, job.batch, kSampleSeed),
        optimizer(makeOptimizer(job.optimizer)) {}
  EngineOptions engineOptions() const {
    EngineOptions options = engineUnder(job, strategy.layout);
    options.seed = kSampleSeed;
    return options;
  }
  void step(int64_t number) {
    const Collectives before = mesh.counters();
    StepReport report;
    times.measure([&] { report = engine.step(loader, number, *optimizer, kRate); });
    loss = report.loss;
    if (number > 0) waited += report.waited;  // in the first step arenas grow
    sent = since(before, mesh.counters());
  }

  Strategy strategy;
  TrainingJob job;
  DeviceMesh& mesh;
  std::unique_ptr<Model> model;
  Engine engine;
  Loader loader;
  std::unique_ptr<Optimizer> optimizer;
  StepTimes times{mesh};
  Waited waited;  // in all steps but the first
  Collectives sent;
  double loss = 0;  // of the last step
};

/// For whom ranks wait, as shares of the steps' time: means over ranks. Collective.
Waited sharesWaited(SampleRank& rank, const ComparedStrategy& c) {
  Waited own = c.waited, mean;
  const double seconds = c.times.totalMilliseconds() / 1e3 * rank.mesh.ranks();
  for (double& share : own.seconds) share = seconds > 0 ? share / seconds : 0;
  const Shape shape{static_cast<int64_t>(own.seconds.size())};
  Arena memory("shares", rank.mesh.backing());
  Tensor summands = memory.allocate(DType::Float64, shape);
  setElements(rank.mesh, summands, {own.seconds.begin(), own.seconds.end()});
  summands.layout.partial = {Axis::Data};  // the sample's ranks lie along it
  std::ranges::copy(elementsOf(rank.mesh, rearranged(rank.mesh, summands, shape, {}, memory)),
                    mean.seconds.begin());
  return mean;
}

/// What is known without data, too.
StrategyUse plannedUse(const ComparedStrategy& c, const Prediction& predicted) {
  return {.strategy = c.strategy.name,
          .types = c.job.types,
          .memory = c.engine.memory(),
          .formula = formulaState(c.job, c.strategy.layout),
          .sent = sentBytes(c.sent, c.strategy.layout.mesh),
          .sentFormula = formulaSent(c.job, c.strategy.layout),
          .predictedSeconds = predicted.seconds.total()};
}

StrategyUse measuredUse(const ComparedStrategy& c, const Waited& shares,
                        const Prediction& predicted) {
  StrategyUse use = plannedUse(c, predicted);
  const double seconds = c.times.medianMilliseconds() / 1e3;
  use.measured = {.seconds = seconds,
                  .shares = shares,
                  .tokensPerSecond = c.job.tokens() / seconds,
                  .loss = c.loss};
  return use;
}

nlohmann::json stateJson(const StateBytes& state) {
  return {{"parameters", std::llround(state.parameters)},
          {"gradients", std::llround(state.gradients)},
          {"optimizer", std::llround(state.optimizer)}};
}

/// A strategy, for programs.
nlohmann::json rowOf(const ComparedStrategy& c, const StrategyUse& use,
                     const Prediction& predicted) {
  nlohmann::json memory, counts, waited;
  for (const auto& [kind, bytes] : kindsOf(use.memory)) memory[kind] = bytes;
  for (const CollectiveKind kind : kCollectiveKinds) {
    size_t bytes = 0;
    for (const auto& [axes, counted] : c.sent) bytes += countOf(counted, kind).bytes;
    counts[toString(kind)] = bytes;
  }
  nlohmann::json row{{"strategy", use.strategy},
                     {"layout", c.strategy.layout.describe()},
                     {"bytes", use.memory.total()},
                     {"memory", memory},
                     {"state", stateJson(use.state())},
                     {"formula_state", stateJson(use.formula)},
                     {"saved_activations", use.savedActivations()},
                     {"collectives", counts},
                     {"sent_bytes", std::llround(use.sent)},
                     {"predicted_seconds", predicted.seconds.total()},
                     {"predicted_bytes", predicted.memory.total()}};
  if (use.sentFormula) row["formula_sent_bytes"] = std::llround(*use.sentFormula);
  if (!use.measured) return row;
  const Waited& shares = use.measured->shares;
  for (const Awaited awaited : kAwaited) waited[toString(awaited)] = shares[awaited];
  row.update({{"seconds", use.measured->seconds},
              {"idle", shares.total()},
              {"waited", waited},
              {"tokens_per_second", use.measured->tokensPerSecond},
              {"loss", use.measured->loss}});
  return row;
}

/// Of rank 0, as they come.
class StrategyReport {
 public:
  void add(const ComparedStrategy& c, const StrategyUse& use, const Prediction& predicted) {
    uses_.push_back(use);
    rows_.push_back(rowOf(c, use, predicted));
  }
  void say(SampleRank& rank, const CompareOptions& options, const TrainingJob& job) const {
    std::string lines;
    for (const nlohmann::json& row : rows_) lines += row.dump() + "\n";
    if (options.json == "-") return rank.say(lines);
    if (!options.json.empty()) rank.write("--json", options.json, lines);
    const double parameters =
        std::visit([](const auto& model) { return parameterCount(model); }, job.model);
    char millions[32];
    std::snprintf(millions, sizeof(millions), "%.2f", parameters / 1e6);
    const std::string leftOut = strategiesOf(job, rank.mesh.ranks()).describeLeftOut();
    rank.say(message("What rank 0 of ", rank.mesh.ranks(), " holds of ", millions,
                     " million parameters, in ", toString(job.types.weights), " with AdamW",
                     job.types.weights == DType::Float32 ? "" : " in float32", "\n\n",
                     memoryTable(uses_, options.markdown), "\nA step of ", job.batch,
                     " sequences of ", job.context, " tokens\n\n",
                     stepTable(uses_, options.markdown), leftOut.empty() ? "" : "\n", leftOut,
                     leftOut.empty() ? "" : "\n"));
  }

 private:
  std::vector<StrategyUse> uses_;
  std::vector<nlohmann::json> rows_;
};

/// What a run without data says this rank holds is what it held; of experts without a capacity it
/// cannot know.
void requirePlanned(const ComparedStrategy& c, const ExpertOptions& experts) {
  if (experts.count > 0 && experts.capacityFactor == 0) return;
  const TrainingMemory planned = dryRunUnder(c.job, c.strategy.layout, c.mesh.rank()).memory;
  ensure(planned == c.engine.memory(), c.strategy.name, ": rank ", c.mesh.rank(), " ",
         describe(c.engine.memory()), "and it was planned that it ", describe(planned));
}

/// One training after the other, a step of each at a time.
std::list<ComparedStrategy> trained(SampleRank& rank, Arrangements& ranks, const TrainingJob& job) {
  const std::vector<uint8_t> tokens = sampleText();
  std::list<ComparedStrategy> all;
  for (Strategy& strategy : strategiesOf(job, rank.mesh.ranks()).possible)
    all.emplace_back(rank, ranks, job, std::move(strategy), tokens);
  for (int64_t step = 0; step < rank.options.steps; ++step)
    for (ComparedStrategy& compared : all) compared.step(step);
  return all;
}

/// What rank 0 would hold and send, and what the planner says of ranks that are not there: they
/// compute as this machine does, and what they exchange is copied in its memory.
void compareDry(SampleRank& rank, const TrainingJob& job, const CompareOptions& options) {
  Arrangements arrangements(rank.mesh);
  const std::list<ComparedStrategy> all = trained(rank, arrangements, job);
  if (rank.options.device != "dry") return;  // ranks come after this run, and say what they find
  const DeviceRates rates = ratesHere(rank.options, rank.mesh.ranks(), options.type);
  CopyingNetwork network(rates.of("copy").bytesPerSecond / 2);  // each byte is read and written
  Predictor predictor(job, rates, network, rank.mesh.ranks());
  StrategyReport report;
  for (const ComparedStrategy& compared : all) {
    const Prediction predicted = predictor.predict(compared.strategy.layout);
    report.add(compared, plannedUse(compared, predicted), predicted);
  }
  report.say(rank, options, job);
}

void compare(SampleRank& rank, const CompareOptions& options) {
  if (!options.json.empty() && options.json != "-" && rank.mesh.rank() == 0)
    naming("--json", [&] { requireReplaceable(options.json); });
  TrainingJob job = jobOf(rank.options, options.type);
  std::visit([](auto& model) { fillExperts(model.experts); }, job.model);
  if (rank.mesh.dry()) return compareDry(rank, job, options);
  if (rank.mesh.stream())
    rank.note("idle is of the ranks' threads: what streams wait is not timed");
  const DeviceRates rates = measuredRates(rank, job.context, options.type);
  MeasuredNetwork network(rank);
  Predictor predictor(job, rates, network, rank.mesh.ranks());
  Arrangements arrangements(rank.mesh);
  const std::list<ComparedStrategy> all = trained(rank, arrangements, job);
  StrategyReport report;
  for (const ComparedStrategy& compared : all) {
    requirePlanned(compared, rank.options.model.experts);
    const Waited shares = sharesWaited(rank, compared);
    if (rank.mesh.rank() != 0) continue;
    const Prediction predicted = predictor.predict(compared.strategy.layout);
    report.add(compared, measuredUse(compared, shares, predicted), predicted);
  }
  report.say(rank, options, job);
}

void addFlags(CLI::App& app, SampleOptions& options, CompareOptions& o) {
  options.model = {.context = 32, .layers = 8, .width = 192, .heads = 4};
  options.batch = 8;
  options.steps = 5;
  options.model.experts.capacityFactor = kCapacity;
  addTrainingFlags(app, options);
  addExpertFlags(app, options.model.experts);
  app.get_option("--steps")->check(
      [](const std::string& steps) {
        return steps == "1" ? "of one step no time is counted: arenas grow in it" : "";
      },
      "AT LEAST 2");
  app.add_option("--json", o.json,
                 "also write a JSON line for each strategy to this file; - is standard output")
      ->type_name("FILE");
  app.add_flag("--markdown", o.markdown, "tables for a page");
  addChoiceFlag<DType>(app, "--type", o.type,
                       {{"float32", DType::Float32}, {"bfloat16", DType::BFloat16}},
                       "element type of weights, activations and gradients; the weights that are "
                       "updated and AdamW's state stay float32; default: float32");
}

}  // namespace

int main(int argc, char** argv) {
  CompareOptions options;
  return runSample(
      argc, argv,
      {.name = "compare_strategies",
       .about = "Every strategy on one model: memory, bytes, idle time, tokens a second.",
       .flags = [&](CLI::App& app, SampleOptions& all) { addFlags(app, all, options); },
       .mesh = [](int ranks) { return MeshShape::along(Axis::Data, ranks); },
       .train = [&](SampleRank& rank) { compare(rank, options); },
       .gpuBlocks = kGpuBlocks});
}
