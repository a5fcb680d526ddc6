#pragma once

// One rank's part of `tutti perf`: measures and checks every size, and prints on rank 0.

#include <cstdio>
#include <ostream>

#include <tutti/communicator.h>

#include "src/tools/perf/perf_call.h"
#include "src/tools/perf/perf_options.h"

namespace tutti::tools {

struct PerfOutput {
  std::FILE* table = stdout;
  std::ostream* json = nullptr;  ///< a line per size, or none
  std::ostream* csv = nullptr;   ///< titles, and a row for each timing, or none
  PerfSeam seam = {};
};

/// Collective over `c`. Returns the exit code, the same on all ranks: 1 when a result was wrong.
/// Throws InvalidArgument for options that do not fit the communicator.
int runPerf(Communicator& c, const PerfOptions& options, const PerfOutput& output);

}  // namespace tutti::tools
