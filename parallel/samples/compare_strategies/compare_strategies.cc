// compare_strategies: every strategy on one model, each step of one after that of another: what a
// rank holds by kind and sends, how long ranks wait and for what, tokens a second, and beside them
// what the planner says by rates measured at the start. `compare_strategies --ranks 4`, and with
// `--experts 8` of a mixture of experts; with `--device dry` what is known of ranks that are not
// there: memory, bytes and the planner's time. On GPUs ranks wait for each other on streams, which
// nobody times: idle is then what their threads wait for.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>

#include "parallel/checkpoint/pending_file.h"
#include "parallel/engine/describe.h"
#include "parallel/samples/compare_strategies/strategies.h"
#include "parallel/samples/device.h"
#include "parallel/samples/elements.h"
#include "parallel/samples/fsdp_tp/layout_comparison.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/planning/measured_rates.h"

namespace {

using namespace tutti::parallel;

constexpr double kRate = 0.01;
/// Of experts, unless --capacity says another: with one a rank's memory does not depend on the
/// data.
constexpr double kCapacity = 1.25;

/// Of each communicator, of which there are some thirty at a time: a GPU has as many for the last
/// one as for the first.
constexpr int kGpuBlocks = 4;

struct CompareOptions {
  std::string json;  ///< a file, "-" for standard output, or empty
  bool markdown = false;
};

TrainingJob jobOf(const SampleOptions& o) {
  return {.model = o.model,
          .types = DType::Float32,
          .optimizer = OptimizerKind::Sgd,
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
nlohmann::json plannedOf(const ComparedStrategy& c, const Prediction& predicted) {
  nlohmann::json memory, counts;
  for (const auto& [kind, bytes] : kindsOf(c.engine.memory())) memory[kind] = bytes;
  for (const CollectiveKind kind : kCollectiveKinds) {
    size_t bytes = 0;
    for (const auto& [axes, counted] : c.sent) bytes += countOf(counted, kind).bytes;
    counts[toString(kind)] = bytes;
  }
  return {{"strategy", c.strategy.name},
          {"layout", c.strategy.layout.describe()},
          {"bytes", c.engine.memory().total()},
          {"memory", memory},
          {"sent", counts},
          {"sent_bytes", bytesOf(c.sent)},
          {"predicted_seconds", predicted.seconds.total()},
          {"predicted_bytes", predicted.memory.total()}};
}

nlohmann::json measuredOf(const ComparedStrategy& c, const Waited& shares,
                          const Prediction& predicted) {
  const double seconds = c.times.medianMilliseconds() / 1e3;
  nlohmann::json row = plannedOf(c, predicted), waited;
  for (const Awaited awaited : kAwaited) waited[toString(awaited)] = shares[awaited];
  row.update({{"seconds", seconds},
              {"idle", shares.total()},
              {"waited", waited},
              {"tokens_per_second", c.job.tokens() / seconds},
              {"loss", c.loss}});
  return row;
}

/// Percent of the step; nothing where the strategy has no such ranks.
std::string shareText(double share, bool markdown) {
  char text[32] = "";
  if (share > 0) std::snprintf(text, sizeof(text), markdown ? "%.0f%%" : "%.0f", 100 * share);
  return text;
}

std::string numberText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), number < 1000 ? "%.1f" : "%.0f", number);
  return text;
}

using Cells = std::vector<std::string>;

Cells measuredHeading() {
  Cells cells{"strategy", "rank 0 holds", "sends", "idle"};
  for (const Awaited awaited : kAwaited) cells.emplace_back(toString(awaited));
  cells.insert(cells.end(), {"tokens/s", "a step, ms", "predicted"});
  return cells;
}

Cells measuredCells(const nlohmann::json& row, bool markdown) {
  Cells cells{row["strategy"], bytesText(row["bytes"]), bytesText(row["sent_bytes"]),
              shareText(row["idle"], markdown)};
  for (const Awaited awaited : kAwaited)
    cells.push_back(shareText(row["waited"][toString(awaited)], markdown));
  for (const double number :
       {row["tokens_per_second"].get<double>(), 1e3 * row["seconds"].get<double>(),
        1e3 * row["predicted_seconds"].get<double>()})
    cells.push_back(numberText(number));
  return cells;
}

/// With the kinds of memory that some strategy needs.
std::vector<Cells> plannedCells(const std::vector<nlohmann::json>& rows) {
  std::vector<Cells> table{{"strategy", "rank 0 holds"}};
  for (const nlohmann::json& row : rows)
    table.push_back({row["strategy"], bytesText(row["bytes"])});
  for (const auto& [kind, none] : kindsOf({})) {
    const auto bytesOfKind = [&, of = kind](const nlohmann::json& row) -> size_t {
      return row["memory"][of];
    };
    if (std::ranges::all_of(rows, [&](const auto& row) { return bytesOfKind(row) == 0; })) continue;
    table[0].emplace_back(kind);
    for (size_t i = 0; i < rows.size(); ++i)
      table[i + 1].push_back(bytesOfKind(rows[i]) == 0 ? "" : bytesText(bytesOfKind(rows[i])));
  }
  table[0].insert(table[0].end(), {"sends", "predicted, ms"});
  for (size_t i = 0; i < rows.size(); ++i)
    table[i + 1].insert(table[i + 1].end(),
                        {bytesText(rows[i]["sent_bytes"]),
                         numberText(1e3 * rows[i]["predicted_seconds"].get<double>())});
  return table;
}

/// The first cell of a row begins at the left, the others end at the right.
std::string rowText(const Cells& cells, const std::vector<size_t>& widths, bool markdown) {
  std::string text = markdown ? "|" : "";
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string blanks(widths[i] - cells[i].size(), ' ');
    text += markdown ? message(" ", cells[i], " |")
            : i == 0 ? cells[i] + blanks
                     : message("  ", blanks, cells[i]);
  }
  return text + "\n";
}

/// The first row is the heading.
std::string tableText(const std::vector<Cells>& rows, bool markdown) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Cells& cells : rows)
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  std::string text = rowText(rows[0], widths, markdown);
  if (markdown) text += rowText(Cells(widths.size(), "---"), widths, true);
  for (size_t i = 1; i < rows.size(); ++i) text += rowText(rows[i], widths, markdown);
  return text;
}

void say(SampleRank& rank, const CompareOptions& options, const std::vector<nlohmann::json>& rows) {
  std::string lines;
  for (const nlohmann::json& row : rows) lines += row.dump() + "\n";
  if (options.json == "-") return rank.say(lines);
  if (!options.json.empty() && rank.mesh.rank() == 0)
    naming("--json", [&] { replaceText(options.json, lines); });
  std::vector<Cells> table;
  if (rank.mesh.dry()) {
    table = plannedCells(rows);
  } else {
    table.push_back(measuredHeading());
    for (const nlohmann::json& row : rows) table.push_back(measuredCells(row, options.markdown));
  }
  rank.say(tableText(table, options.markdown));
}

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
  for (Strategy& strategy : strategiesOf(job, rank.mesh.ranks()))
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
  const DeviceRates rates = ratesHere(rank.options, rank.mesh.ranks());
  CopyingNetwork network(rates.of("copy").bytesPerSecond / 2);  // each byte is read and written
  Predictor predictor(job, rates, network, rank.mesh.ranks());
  std::vector<nlohmann::json> rows;
  for (const ComparedStrategy& compared : all)
    rows.push_back(plannedOf(compared, predictor.predict(compared.strategy.layout)));
  say(rank, options, rows);
}

void compare(SampleRank& rank, const CompareOptions& options) {
  if (!options.json.empty() && options.json != "-" && rank.mesh.rank() == 0)
    naming("--json", [&] { requireReplaceable(options.json); });
  TrainingJob job = jobOf(rank.options);
  std::visit([](auto& model) { fillExperts(model.experts); }, job.model);
  if (rank.mesh.dry()) return compareDry(rank, job, options);
  if (rank.mesh.stream())
    rank.note("idle is of the ranks' threads: what streams wait is not timed");
  const DeviceRates rates = measuredRates(rank, job.context);
  MeasuredNetwork network(rank);
  Predictor predictor(job, rates, network, rank.mesh.ranks());
  Arrangements arrangements(rank.mesh);
  const std::list<ComparedStrategy> all = trained(rank, arrangements, job);
  std::vector<nlohmann::json> rows;
  for (const ComparedStrategy& compared : all) {
    requirePlanned(compared, rank.options.model.experts);
    const Waited shares = sharesWaited(rank, compared);
    if (rank.mesh.rank() == 0)
      rows.push_back(measuredOf(compared, shares, predictor.predict(compared.strategy.layout)));
  }
  say(rank, options, rows);
}

void addFlags(CLI::App& app, SampleOptions& options, CompareOptions& o) {
  options.model = {.context = 64, .layers = 8, .width = 128, .heads = 4};
  options.batch = 16;
  options.steps = 8;
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
       .train = [&](SampleRank& rank) { compare(rank, options); },
       .gpuBlocks = kGpuBlocks});
}
