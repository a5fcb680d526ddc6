// pipeline_schedules: every schedule on one model. Its layers sleep instead of computing, so that
// as many ranks as there are fit on any machine; how long ranks idle is predicted in virtual time
// and then measured. On GPUs what lies between the layers is there, and they sleep on the host.
// `pipeline_schedules --ranks 4 --micro-batches 8`

#include <CLI/CLI.hpp>

#include "parallel/pipeline/timeline.h"
#include "parallel/samples/device_time.h"
#include "parallel/samples/options/list_flag.h"
#include "parallel/samples/sample.h"
#include "parallel/samples/sleeper.h"
#include "src/base/table.h"

namespace {

using namespace tutti::parallel;
using tutti::base::fixed;
using tutti::base::TextTable;

struct SleepOptions {
  int microBatches = 8;
  std::vector<int64_t> costs{4, 4, 4};  ///< milliseconds of F, B, W on a rank
};

/// The share of a step in which this rank's layers do not sleep; all ranks begin it together. It
/// ends with the sum of the losses, which no rank has before all have given theirs. What ranks do
/// next waits until all have looked at the clock: where they share cores, whoever leaves the sum
/// last would be late by that.
double idleShare(SampleRank& rank, Sleeper& model, Engine& engine, Loader& loader) {
  const auto barrier = [&] {
    if (MeshCommunicator* all = rank.mesh.communicator(AxisSet::all())) all->barrier();
  };
  model.setSleeps(false);  // the first step is there for what it makes: connections and memory
  engine.gradients(loader, 0);
  model.setSleeps(true);
  barrier();
  const std::chrono::duration<double, std::milli> step =
      timeOnDevice(rank.mesh, [&] { engine.gradients(loader, 1); });
  barrier();
  return 1 - model.slept() / step.count();
}

std::string percent(double share) { return fixed(100 * share, 1) + "%"; }

/// Rows come one after the other, as each takes seconds.
const TextTable& scheduleTable() {
  static const TextTable table({{12, 0, true}, {9}, {8}, {21}});
  return table;
}

void show(SampleRank& rank, ScheduleKind kind, const SleepOptions& o) {
  const int ranks = rank.mesh.extent(Axis::Pipeline);
  const Costs costs{o.costs[0], o.costs[1], o.costs[2]};
  Sleeper model(2 * ranks, ranks, costs);
  Engine engine(
      rank.mesh, rank.kernels, model,
      {.reductionGroups = o.microBatches, .pipeline = {.schedule = kind, .costs = costs}});
  const Schedule& schedule = engine.pipeline().schedule();
  const Timeline timeline = timelineOf(schedule, costs);
  const std::vector<uint8_t> text = sampleText();
  Loader loader(text, 4, o.microBatches, kSampleSeed);
  const std::string measured =
      rank.mesh.dry() ? "-" : percent(idleShare(rank, model, engine, loader));
  rank.say(scheduleTable().row({schedule.name, percent(timeline.bubble().value()), measured,
                                message(schedule.slots(0), " of 1/", schedule.chunks)}));
}

void train(SampleRank& rank, const SleepOptions& options) {
  rank.say(scheduleTable().row({"schedule", "predicted", "measured", "activations of rank 0"}));
  for (const auto kind :
       {ScheduleKind::Naive, ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::Interleaved,
        ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV})
    show(rank, kind, options);
}

void addFlags(CLI::App& app, SleepOptions& o) {
  app.add_option("--micro-batches", o.microBatches, "micro-batches of a step")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  addListFlag(app, "--costs", o.costs,
              "milliseconds of forward, input gradients and weight gradients of a micro-batch "
              "on a rank: F,B,W",
              CLI::Range(1, 1000), 3)
      ->default_str("4,4,4");
}

}  // namespace

int main(int argc, char** argv) {
  SleepOptions options;
  return runSample(argc, argv,
                   {.name = "pipeline_schedules",
                    .about = "How long ranks idle under every schedule, predicted and measured.",
                    .flags = [&](CLI::App& app, SampleOptions&) { addFlags(app, options); },
                    .mesh = [](int ranks) { return MeshShape::along(Axis::Pipeline, ranks); },
                    .train = [&](SampleRank& rank) { train(rank, options); }});
}
