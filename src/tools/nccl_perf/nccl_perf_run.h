#pragma once

// One rank's part of a program with one of nccl-tests' names. What is timed is a batch of calls
// back to back, divided by their number, as there; `tutti perf` times each call for itself.

#include <tutti/communicator.h>

#include "src/tools/nccl_perf/nccl_perf_options.h"
#include "src/tools/perf/perf_run.h"

namespace tutti::tools {

/// Collective: the ranks' times as one.
double ofAllRanks(Communicator& c, PerfAverage average, double us);

/// As runPerf(); to `output.json` goes one object at the end.
int runNcclPerf(Communicator& c, const NcclPerfOptions& options, const PerfOutput& output);

}  // namespace tutti::tools
