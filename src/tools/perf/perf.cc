#include "src/tools/perf/perf.h"

#include <cstdio>
#include <fstream>

#include <tutti/launch.h>
#include <tutti/tutti.h>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/tools/common/device_option.h"
#include "src/tools/common/launch_ranks.h"
#include "src/tools/perf/perf_options.h"
#include "src/tools/perf/perf_plot.h"
#include "src/tools/perf/perf_run.h"

namespace tutti::tools {
namespace {

/// This process is one rank of a job.
int runRank(const PerfOptions& options) {
  // Before joining, so that nobody is kept waiting by a file that cannot be written.
  const auto launched = launchedRank();
  const bool writes = !launched || launched->rank == 0;
  if (!options.plotFile.empty() && writes) requirePlottable(options.plotFile);
  std::ofstream json;
  if (!options.jsonFile.empty() && writes) {
    json.open(options.jsonFile);
    TUTTI_REQUIRE(json.good(), "--json ", options.jsonFile, " cannot be written");
  }
  Communicator c =
      Communicator::create({.deterministic = options.deterministic,
                            .algorithm = options.algorithm,
                            .transport = options.transport,
                            .device = deviceFor(options.device, launched ? launched->rank : 0)});
  return runPerf(c, options, {.json = json.is_open() ? &json : nullptr});
}

}  // namespace

int perfMain(int argc, char** argv) {
  PerfOptions options;
  try {
    const auto parsed = parsePerf(argc, argv);
    if (const int* code = std::get_if<int>(&parsed)) return *code;
    options = std::get<PerfOptions>(parsed);
  } catch (const Error& e) {
    std::fprintf(stderr, "tutti perf: %s\n", base::printableLines(e.what()).c_str());
    return 2;
  }
  try {
    return options.ranks == 0 ? runRank(options) : launchRanks("perf", options.ranks, argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tutti perf: %s\n", base::printableLines(e.what()).c_str());
    return 1;
  }
}

}  // namespace tutti::tools
