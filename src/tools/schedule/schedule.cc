#include "src/tools/schedule/schedule.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>

#include "parallel/pipeline/violations.h"
#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/tools/common/output_file.h"
#include "src/tools/perf/perf_options.h"

namespace tutti::tools {
namespace {

using parallel::Schedule;

constexpr int kMostRanks = 128, kMostMicroBatches = 512;

int64_t parseCost(const std::string& word) {
  int64_t cost = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, cost);
  TUTTI_REQUIRE(error == std::errc() && rest == end, "--costs: ", word, " is no whole number");
  return cost;
}

/// "1,2,1".
parallel::Costs parseCosts(const std::string& list, int64_t transfer) {
  std::vector<int64_t> costs;
  for (const std::string& word : parseList("--costs", list)) costs.push_back(parseCost(word));
  TUTTI_REQUIRE(costs.size() == 3, "--costs has three numbers, of F, B and W, not ", costs.size());
  const parallel::Costs parsed{costs[0], costs[1], costs[2], transfer};
  parallel::check(parsed);
  return parsed;
}

int showSchedule(const ScheduleCommand& command) {
  const parallel::Costs& costs = command.schedule.costs;
  const Schedule schedule = buildSchedule(command.schedule);
  parallel::validate(schedule);
  if (!command.svgFile.empty()) writeFile("--svg", command.svgFile, scheduleSvg(schedule, costs));
  const std::string text =
      command.json ? scheduleJson(schedule, costs) : scheduleText(schedule, costs, command.actions);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

std::variant<ScheduleCommand, int> parseSchedule(int argc, const char* const* argv) {
  ScheduleCommand o;
  std::string name;
  std::string costs = "1,1,1";
  int64_t transfer = 0;
  CLI::App app{
      "What the ranks of a pipeline do in a step, how long each of them idles, and how many\n"
      "activations it holds",
      "tutti schedule"};
  app.add_option("schedule", name, parallel::scheduleNames())->required();
  app.add_option("-p,--ranks", o.schedule.ranks, "ranks of the pipeline")
      ->required()
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("-m,--micro-batches", o.schedule.microBatches, "micro-batches of a step")
      ->required()
      ->check(CLI::Range(1, kMostMicroBatches));
  app.add_option("--chunks", o.schedule.chunks,
                 "stages of each rank: 2 or more of interleaved, 2 of zb-v, 1 of all others")
      ->check(CLI::PositiveNumber);
  app.add_option("--costs", costs,
                 "what forward, input gradients and weight gradients of a micro-batch take on a "
                 "rank, as whole numbers: F,B,W; 1,1,1 without it")
      ->type_name("F,B,W");
  app.add_option("--transfer", transfer, "what it takes to send something to the next rank")
      ->capture_default_str();
  app.add_option("--activations", o.schedule.mostActivations,
                 "of zb-v: stages' activations that a rank may hold, 2 to twice the ranks")
      ->check(CLI::PositiveNumber);
  app.add_flag("--actions", o.actions, "also print all actions of each rank, with the transfers");
  app.add_flag("--json", o.json, "one line for programs");
  app.add_option("--svg", o.svgFile, "also draw a picture into this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const auto kind = parallel::parseScheduleKind(name);
  TUTTI_REQUIRE(kind, "there is no schedule '", name, "': ", parallel::scheduleNames());
  o.schedule.kind = *kind;
  o.schedule.costs = parseCosts(costs, transfer);
  return o;
}

int scheduleMain(int argc, char** argv) {
  try {
    const auto parsed = parseSchedule(argc, argv);
    if (const int* code = std::get_if<int>(&parsed)) return *code;
    return showSchedule(std::get<ScheduleCommand>(parsed));
  } catch (const Error& e) {
    std::fprintf(stderr, "tutti schedule: %s\n", base::printableLines(e.what()).c_str());
    return e.code() == ErrorCode::InvalidArgument ? 2 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tutti schedule: %s\n", base::printableLines(e.what()).c_str());
    return 1;
  }
}

}  // namespace tutti::tools
