#include "src/tools/perf/perf.h"

#include <cstdio>
#include <optional>

#include <tutti/launch.h>
#include <tutti/tutti.h>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/tools/common/device_option.h"
#include "src/tools/common/launch_ranks.h"
#include "src/tools/common/output_file.h"
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
  std::optional<OutputFile> json;
  if (!options.jsonFile.empty() && writes) json.emplace("--json", options.jsonFile);
  Communicator c =
      Communicator::create({.deterministic = options.deterministic,
                            .algorithm = options.algorithm,
                            .transport = options.transport,
                            .device = deviceFor(options.device, launched ? launched->rank : 0)});
  const int code = runPerf(c, options, {.json = json ? &json->stream() : nullptr});
  if (json) json->commit();
  return code;
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
