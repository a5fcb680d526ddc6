#include "parallel/engine/describe.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/json.h"
#include "src/tools/plan_training/train_command.h"

namespace tutti::tools {
namespace {

using base::message;
using parallel::Plan;
using parallel::Prediction;
using parallel::TrainingLayout;
using parallel::TrainingMemory;

constexpr size_t kMisfitsShown = 5;

double parametersOf(const parallel::ModelOptions& model) {
  return std::visit([](const auto& options) { return parameterCount(options); }, model);
}

std::string headline(const PlanTrainingOptions& o) {
  return message(o.model, ", ", base::significant(parametersOf(o.job.model) / 1e9, 3),
                 " billion parameters, on ", o.devices, " device", o.devices == 1 ? "" : "s",
                 " of ", o.topology, " with ", parallel::bytesText(o.memoryBytes), " each\n",
                 o.job.batch, " sequences of ", o.job.context, " tokens a step, weights in ",
                 toString(o.job.types.weights), ", gradients in ", toString(o.job.types.gradients),
                 ", ", parallel::toString(o.job.optimizer), "\n");
}

std::string row(const PlanTrainingOptions& o, size_t place, const Prediction& p,
                const Prediction& best) {
  const std::string numbers =
      base::TextTable({{4, 0}, {8}, {10}, {9}})
          .row({std::to_string(place), parallel::secondsText(p.seconds.total()),
                base::significant(p.tokensPerSecond, 4), parallel::bytesText(p.memory.total())});
  const std::string line = numbers.substr(0, numbers.size() - 1) + "  ";
  const std::string reason = place == 1 ? boundOf(p) : slowerThan(p, best);
  return message(line, p.layout.describe(), "\n", std::string(line.size() + 2, ' '), reason,
                 "\n      ", trainCommand(o, p.layout), "\n");
}

std::string misfits(const PlanTrainingOptions& o, const Plan& plan) {
  if (plan.misfits.empty()) return "";
  std::string text = message("\n", plan.misfits.size(),
                             " ways to share the state out do not fit, however lean; the nearest "
                             "of them:\n");
  for (size_t i = 0; i < std::min(kMisfitsShown, plan.misfits.size()); ++i) {
    const parallel::Misfit& misfit = plan.misfits[i];
    text += message("  ", misfit.layout.describe(), "\n    ",
                    tooLarge(misfit.memory, o.memoryBytes), "\n");
  }
  return text;
}

Json memoryJson(const TrainingMemory& memory) {
  Json kinds;
  for (const auto& [kind, bytes] : kindsOf(memory)) kinds[kind] = bytes;
  return kinds;
}

Json layoutJson(const TrainingLayout& layout) {
  Json mesh = Json::object();
  for (int i = 0; i < parallel::kAxisCount; ++i) {
    const auto axis = static_cast<parallel::Axis>(i);
    if (layout.mesh[axis] > 1) mesh[parallel::toString(axis)] = layout.mesh[axis];
  }
  return {{"text", layout.describe()},
          {"mesh", mesh},
          {"zero", layout.zero},
          {"no_reshard", layout.reshard == parallel::Reshard::Never},
          {"sequence_parallel", layout.sequenceParallel},
          {"heads_exchanged", layout.contextAttention == parallel::ContextAttention::Heads},
          {"recompute", parallel::toString(layout.recompute)},
          {"schedule", parallel::toString(layout.schedule)},
          {"micro_batches", layout.microBatches},
          {"rounds", layout.rounds}};
}

Json predictionJson(const PlanTrainingOptions& o, const Prediction& p, const Prediction& best) {
  Json terms;
  for (const auto& [term, seconds] : termsOf(p.seconds)) terms[term] = seconds;
  return {{"layout", layoutJson(p.layout)},
          {"train_gpt", trainCommand(o, p.layout)},
          {"bytes", p.memory.total()},
          {"memory", memoryJson(p.memory)},
          {"rank", p.memoryRank},
          {"seconds", p.seconds.total()},
          {"terms", terms},
          {"sent_bytes", bytesOf(p.collectives)},
          {"tokens_per_second", p.tokensPerSecond},
          {"reason", &p == &best ? boundOf(p) : slowerThan(p, best)}};
}

}  // namespace

std::string planTrainingText(const PlanTrainingOptions& o, const Plan& plan) {
  std::string text = headline(o);
  if (plan.fitting.empty()) return text + "\nNo layout fits.\n" + misfits(o, plan);
  text += "\n          step    tokens/s  rank holds\n";
  const size_t rows = std::min(static_cast<size_t>(o.limit), plan.fitting.size());
  for (size_t i = 0; i < rows; ++i) text += row(o, i + 1, plan.fitting[i], plan.fitting.front());
  if (rows < plan.fitting.size())
    text += message("      and ", plan.fitting.size() - rows, " more that fit\n");
  return text + misfits(o, plan) + "\nThe first of them: " + plan.fitting.front().describe();
}

std::string planTrainingJson(const PlanTrainingOptions& o, const Plan& plan) {
  Json layouts = Json::array(), misfits = Json::array();
  for (size_t i = 0; i < std::min(static_cast<size_t>(o.limit), plan.fitting.size()); ++i)
    layouts.push_back(predictionJson(o, plan.fitting[i], plan.fitting.front()));
  for (const parallel::Misfit& misfit : plan.misfits)
    misfits.push_back({{"layout", layoutJson(misfit.layout)},
                       {"bytes", misfit.memory.total()},
                       {"memory", memoryJson(misfit.memory)},
                       {"reason", tooLarge(misfit.memory, o.memoryBytes)}});
  return jsonLine(Json{{"model", o.model},
                       {"parameters", parametersOf(o.job.model)},
                       {"devices", o.devices},
                       {"memory_bytes", o.memoryBytes},
                       {"topology", o.topology},
                       {"batch", o.job.batch},
                       {"context", o.job.context},
                       {"type", toString(o.job.types.weights)},
                       {"gradients", toString(o.job.types.gradients)},
                       {"optimizer", parallel::toString(o.job.optimizer)},
                       {"dry_runs", plan.dryRuns},
                       {"fitting", plan.fitting.size()},
                       {"layouts", layouts},
                       {"misfits", misfits}});
}

}  // namespace tutti::tools
