// compare_strategies: every strategy on one model, each step of one after that of another: what a
// rank holds by kind and sends, how long it does not compute, tokens a second, and beside them what
// the planner says by rates measured at the start. `compare_strategies --ranks 4`

#include <algorithm>
#include <cstdio>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>

#include "parallel/engine/describe.h"
#include "parallel/samples/layout_comparison.h"
#include "parallel/samples/measured_rates.h"
#include "parallel/samples/strategies.h"

namespace {

using namespace tutti::parallel;

constexpr double kRate = 0.01;

struct CompareOptions {
  bool json = false, markdown = false;
};

TrainingJob jobOf(const SampleOptions& o) {
  return {.model = o.model,
          .types = DType::Float32,
          .optimizer = OptimizerKind::Sgd,
          .batch = o.batch,
          .context = o.model.context};
}

/// The training under one strategy.
struct Compared {
  Compared(SampleRank& of, const TrainingJob& job, Strategy of_, const std::vector<uint8_t>& tokens)
      : strategy(std::move(of_)),
        mesh(of.mesh.arranged(strategy.layout.mesh)),
        model(makeModel(modelUnder(job, strategy.layout))),
        engine(mesh, of.kernels, *model, engineOptions(job)),
        loader(tokens, job.context, job.batch, kSampleSeed),
        optimizer(makeOptimizer(job.optimizer)) {}
  EngineOptions engineOptions(const TrainingJob& job) const {
    EngineOptions options = engineUnder(job, strategy.layout);
    options.seed = kSampleSeed;
    return options;
  }
  void step(int64_t number) {
    const Collectives before = mesh.counters();
    times.measure([&] { loss = engine.step(loader, number, *optimizer, kRate).loss; });
    sent = since(before, mesh.counters());
  }

  Strategy strategy;
  DeviceMesh mesh;
  std::unique_ptr<Model> model;
  Engine engine;
  Loader loader;
  std::unique_ptr<Optimizer> optimizer;
  StepTimes times;
  Collectives sent;
  double loss = 0;  // of the last step
};

nlohmann::json rowOf(const Compared& c, const TrainingJob& job, const Prediction& predicted) {
  const double seconds = c.times.medianMilliseconds() / 1e3;
  nlohmann::json memory, counts;
  for (const auto& [kind, bytes] : kindsOf(c.engine.memory())) memory[kind] = bytes;
  for (const CollectiveKind kind : kCollectiveKinds) {
    size_t bytes = 0;
    for (const auto& [axes, counted] : c.sent) bytes += countOf(counted, kind).bytes;
    counts[toString(kind)] = bytes;
  }
  const double idle = 1 - (predicted.seconds.compute + predicted.seconds.update) / seconds;
  return {{"strategy", c.strategy.name},
          {"layout", c.strategy.layout.describe()},
          {"bytes", c.engine.memory().total()},
          {"memory", memory},
          {"sent", counts},
          {"sent_bytes", bytesOf(c.sent)},
          {"seconds", seconds},
          {"idle", std::clamp(idle, 0.0, 1.0)},
          {"tokens_per_second", job.tokens() / seconds},
          {"loss", c.loss},
          {"predicted_seconds", predicted.seconds.total()},
          {"predicted_bytes", predicted.memory.total()}};
}

std::string line(const nlohmann::json& row, bool markdown) {
  char text[256];
  std::snprintf(text, sizeof(text),
                markdown ? "| %s | %s | %s | %.0f%% | %.0f | %.1f | %.1f |\n"
                         : "%-22s %10s %10s %5.0f%% %9.0f %9.1f %9.1f\n",
                row["strategy"].get<std::string>().c_str(), bytesText(row["bytes"]).c_str(),
                bytesText(row["sent_bytes"]).c_str(), 100 * row["idle"].get<double>(),
                row["tokens_per_second"].get<double>(), 1e3 * row["seconds"].get<double>(),
                1e3 * row["predicted_seconds"].get<double>());
  return text;
}

std::string heading(bool markdown) {
  if (markdown)
    return "| strategy | rank 0 holds | sends | idle | tokens/s | a step, ms | predicted |\n"
           "|---|---|---|---|---|---|---|\n";
  char text[160];
  std::snprintf(text, sizeof(text), "%-22s %10s %10s %6s %9s %9s %9s\n", "strategy", "rank 0 has",
                "sends", "idle", "tokens/s", "step, ms", "predicted");
  return text;
}

/// What a run without data says this rank holds is what it held.
void requirePlanned(const Compared& c, const TrainingJob& job) {
  TrainingJob same = job;
  const TrainingMemory planned = dryRunUnder(same, c.strategy.layout, c.mesh.rank()).memory;
  ensure(planned == c.engine.memory(), c.strategy.name, ": rank ", c.mesh.rank(), " ",
         describe(c.engine.memory()), "and it was planned that it ", describe(planned));
}

void compare(SampleRank& rank, const CompareOptions& options) {
  const TrainingJob job = jobOf(rank.options);
  const DeviceRates rates = measuredRates(rank, job.context);
  MeasuredNetwork network(rank.mesh);
  Predictor predictor(job, rates, network, rank.mesh.ranks());
  const std::vector<uint8_t> tokens = sampleText();
  std::list<Compared> all;
  for (Strategy& strategy : strategiesOf(job, rank.mesh.ranks()))
    all.emplace_back(rank, job, std::move(strategy), tokens);
  for (int64_t step = 0; step < rank.options.steps; ++step)
    for (Compared& compared : all) compared.step(step);
  if (rank.mesh.dry()) return;
  if (!options.json) rank.say(heading(options.markdown));
  for (const Compared& compared : all) {
    requirePlanned(compared, job);
    if (rank.mesh.rank() != 0) continue;
    const auto row = rowOf(compared, job, predictor.predict(compared.strategy.layout));
    rank.say(options.json ? row.dump() + "\n" : line(row, options.markdown));
  }
}

void addFlags(CLI::App& app, SampleOptions& options, CompareOptions& o) {
  options.model = {.context = 64, .layers = 8, .width = 128, .heads = 4};
  options.batch = 16;
  options.steps = 8;
  addTrainingFlags(app, options);
  app.add_flag("--json", o.json, "a line for each strategy, for programs");
  app.add_flag("--markdown", o.markdown, "a table for a page");
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
       .train = [&](SampleRank& rank) { compare(rank, options); }});
}
