#pragma once

// The tables of `tutti perf` as pictures, by gnuplot.

#include <chrono>
#include <string>
#include <vector>

#include "src/tools/perf/perf_compare.h"
#include "src/tools/perf/perf_options.h"
#include "src/tools/perf/perf_report.h"

namespace tutti::tools {

/// What gnuplot is told: times and bus bandwidths over sizes, to be written to its standard output
/// as SVG.
std::string plotScript(const PerfOptions& options, int ranks, const std::vector<PerfRow>& rows);

/// The same of the ratios of a comparison, with their spreads where they have some. Throws
/// InvalidArgument when all calls are of 0 bytes.
std::string comparisonScript(const PerfComparison& comparison);

/// Before anything is measured: throws System when `file` cannot be written, and Unsupported when
/// there is no gnuplot.
void requirePlottable(const std::string& file);

/// Throws System when `file` cannot be written, and Internal when gnuplot fails or takes longer
/// than `longest`; then it is killed.
void writePlot(const std::string& file, const std::string& script,
               std::chrono::milliseconds longest = std::chrono::minutes(1));

}  // namespace tutti::tools
