#include "src/tools/perf/perf.h"

#include <cstdio>
#include <memory>

#include <tutti/launch.h>
#include <tutti/tutti.h>

#include "src/tools/common/command_line.h"
#include "src/tools/common/device_option.h"
#include "src/tools/common/launch_ranks.h"
#include "src/tools/common/output_file.h"
#include "src/tools/perf/perf_compare.h"
#include "src/tools/perf/perf_options.h"
#include "src/tools/perf/perf_plot.h"
#include "src/tools/perf/perf_run.h"

namespace tutti::tools {
namespace {

/// Where the table goes: beside standard output where a file is that.
std::FILE* tableFile(const PerfOptions& o) {
  const bool taken =
      isStandardOutput(o.jsonFile) || isStandardOutput(o.csvFile) || isStandardOutput(o.plotFile);
  return taken ? stderr : stdout;
}

/// Null where none is asked for.
std::unique_ptr<OutputFile> openIfAny(const char* option, const std::string& path) {
  return path.empty() ? nullptr : std::make_unique<OutputFile>(option, path);
}

/// This process is one rank of a job.
int runPerfRank(const PerfOptions& options) {
  // Before joining, so that nobody is kept waiting by a file that cannot be written.
  const auto launched = launchedRank();
  std::unique_ptr<OutputFile> json, csv;
  if (!launched || launched->rank == 0) {
    if (!options.plotFile.empty()) requirePlottable(options.plotFile);
    json = openIfAny("--json", options.jsonFile);
    csv = openIfAny("--csv", options.csvFile);
  }
  Communicator c =
      Communicator::create({.deterministic = options.deterministic,
                            .algorithm = options.algorithm,
                            .transport = options.transport,
                            .device = deviceFor(options.device, launched ? launched->rank : 0)});
  const int code = runPerf(c, options,
                           {.table = tableFile(options),
                            .json = json ? &json->stream() : nullptr,
                            .csv = csv ? &csv->stream() : nullptr});
  if (json) json->commit();
  if (csv) csv->commit();
  return code;
}

int comparePerf(const PerfOptions& options) {
  if (!options.plotFile.empty()) requirePlottable(options.plotFile);
  const PerfComparison comparison = compareFiles(options.compared.at(0), options.compared.at(1));
  printNow(tableFile(options), comparisonText(comparison));
  if (!options.plotFile.empty()) writePlot(options.plotFile, comparisonScript(comparison));
  return 0;
}

}  // namespace

int perfMain(int argc, char** argv) {
  return runProgram<PerfOptions>(
      "tutti perf", [&] { return parsePerf(argc, argv); },
      [&](const PerfOptions& options) {
        if (!options.compared.empty()) return comparePerf(options);
        return options.ranks == 0 ? runPerfRank(options)
                                  : launchRanks("perf", options.ranks, argc, argv);
      },
      1);
}

}  // namespace tutti::tools
