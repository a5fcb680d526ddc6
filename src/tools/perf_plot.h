#pragma once

// The table of `tutti perf` as a picture, by gnuplot.

#include <string>
#include <vector>

#include "src/tools/perf_options.h"
#include "src/tools/perf_report.h"

namespace tutti::tools {

/// What gnuplot is told: times and bus bandwidths over sizes, to be written to its standard output
/// as SVG.
std::string plotScript(const PerfOptions& options, int ranks, const std::vector<PerfRow>& rows);

/// Throws System when `file` cannot be written, Unsupported when there is no gnuplot, and Internal
/// when it fails.
void writePlot(const std::string& file, const std::string& script);

}  // namespace tutti::tools
