#pragma once

// The table that `tutti perf` prints, and the same as JSON lines.

#include <cstdint>
#include <optional>
#include <string>

#include "src/tools/perf/perf_options.h"

namespace tutti::tools {

/// One measured variant (out of place or in place) of one size.
struct PerfTiming {
  double timeUs = 0;  ///< of one call: the median; in nccl-tests' programs the mean
  double p99Us = 0;
  double algorithmGBps = 0, busGBps = 0;
  int64_t wrong = -1;  ///< elements that differ, over all ranks; -1 when not checked
  int iterations = 0;

  /// Of calls of `bytes` that took `us`.
  void setBandwidths(uint64_t bytes, double us, double busFactor);
};

struct PerfRow {
  uint64_t bytes = 0, count = 0;
  PerfTiming outOfPlace;
  std::optional<PerfTiming> inPlace;  ///< where that is possible
};

/// What stands below the table.
class PerfTotals {
 public:
  void add(const PerfRow& row);
  int64_t wrong() const { return wrong_; }
  double averageBusGBps() const { return timings_ == 0 ? 0 : busGBps_ / timings_; }

 private:
  void add(const PerfTiming& timing);
  int64_t wrong_ = 0;
  double busGBps_ = 0;
  int timings_ = 0;
};

/// By what nccl-tests multiplies algorithm bandwidth so that it compares with the hardware's.
double busFactor(Collective collective, int ranks);

/// Each line with "# " before it.
std::string commented(const std::string& text);

std::string perfHeader(const PerfOptions& options, int ranks, const std::string& hosts);
std::string perfLine(const PerfOptions& options, const PerfRow& row);
std::string perfFooter(const PerfTotals& totals, bool checked);
std::string perfJson(const PerfOptions& options, int ranks, const PerfRow& row);

}  // namespace tutti::tools
