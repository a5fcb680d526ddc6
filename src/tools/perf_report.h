#pragma once

// The table that `tutti perf` prints, and the same as JSON lines.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/tools/perf_options.h"

namespace tutti::tools {

/// One measured variant (out of place or in place) of one size.
struct PerfTiming {
  double medianUs = 0, p99Us = 0;
  double algorithmGBps = 0, busGBps = 0;
  int64_t wrong = -1;  ///< elements that differ, over all ranks; -1 when not checked
  int iterations = 0;
};

struct PerfRow {
  uint64_t bytes = 0, count = 0;
  PerfTiming outOfPlace;
  std::optional<PerfTiming> inPlace;  ///< where that is possible
};

/// By what nccl-tests multiplies algorithm bandwidth so that it compares with the hardware's.
double busFactor(Collective collective, int ranks);

std::string perfHeader(const PerfOptions& options, int ranks, const std::string& hosts);
std::string perfLine(const PerfOptions& options, const PerfRow& row);
std::string perfFooter(const std::vector<PerfRow>& rows, bool checked);
std::string perfJson(const PerfOptions& options, int ranks, const PerfRow& row);

}  // namespace tutti::tools
