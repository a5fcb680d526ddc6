#include "src/tools/schedule/schedule.h"

#include "parallel/pipeline/violations.h"
#include "src/base/check.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/names.h"
#include "src/tools/common/output_file.h"
#include "src/tools/common/values.h"

namespace tutti::tools {
namespace {

using parallel::Schedule;

constexpr int kMostRanks = 128, kMostMicroBatches = 512;

/// "1,2,1".
parallel::Costs parseCosts(const std::string& list, int64_t transfer) {
  std::vector<int64_t> costs;
  for (const std::string& word : parseList("--costs", list))
    costs.push_back(parseWhole("--costs", word, INT64_MIN, INT64_MAX));
  TUTTI_REQUIRE(costs.size() == 3, "--costs has three numbers, of F, B and W, not ", costs.size());
  const parallel::Costs parsed{costs[0], costs[1], costs[2], transfer};
  parallel::check(parsed);
  return parsed;
}

int showSchedule(const ScheduleCommand& command) {
  const parallel::Costs& costs = command.schedule.costs;
  const Schedule schedule = buildSchedule(command.schedule);
  parallel::validate(schedule);
  writeIfNamed("--svg", command.svgFile, [&] { return scheduleSvg(schedule, costs); });
  writeIfNamed("--json", command.jsonFile, [&] { return scheduleJson(schedule, costs); });
  printBeside(scheduleText(schedule, costs, command.actions), {command.svgFile, command.jsonFile});
  return 0;
}

}  // namespace

std::variant<ScheduleCommand, int> parseSchedule(int argc, const char* const* argv) {
  ScheduleCommand o;
  std::string name;
  std::string costs = "1,1,1";
  int64_t transfer = 0;
  CommandLine app(
      "What the ranks of a pipeline do in a step, how long each of them idles, and how many\n"
      "activations it holds",
      "tutti schedule");
  app.add_option("schedule", name, parallel::scheduleNames())->required();
  app.add_option("-p,--ranks", o.schedule.ranks, "ranks of the pipeline")
      ->required()
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("-m,--micro-batches", o.schedule.microBatches, "micro-batches of a step")
      ->required()
      ->check(CLI::Range(1, kMostMicroBatches));
  app.add_option("--chunks", o.schedule.chunks,
                 "stages of each rank: 2 or more of interleaved, 2 of zb-v, 1 of all others")
      ->check(CLI::PositiveNumber)
      ->default_str("");
  app.add_option("--costs", costs,
                 "what forward, input gradients and weight gradients of a micro-batch take on a "
                 "rank, as whole numbers: F,B,W")
      ->type_name("F,B,W");
  app.add_option("--transfer", transfer, "what it takes to send something to the next rank");
  app.add_option("--activations", o.schedule.mostActivations,
                 "of zb-v: stages' activations that a rank may hold, 2 to twice the ranks")
      ->check(CLI::PositiveNumber)
      ->default_str("");
  app.add_flag("--actions", o.actions, "also print all actions of each rank, with the transfers");
  app.addOutput("--json", o.jsonFile, "also write it to this file, as JSON in one line");
  app.addOutput("--svg", o.svgFile, "also draw a picture into this file");
  if (const auto code = app.read(argc, argv)) return *code;
  const auto kind = parallel::parseScheduleKind(name);
  if (!kind)
    refuseName(base::message("there is no schedule '", name, "'"), name, parallel::scheduleWords());
  o.schedule.kind = *kind;
  o.schedule.costs = parseCosts(costs, transfer);
  return o;
}

int scheduleMain(int argc, char** argv) {
  return runProgram<ScheduleCommand>(
      "tutti schedule", [&] { return parseSchedule(argc, argv); }, showSchedule);
}

}  // namespace tutti::tools
