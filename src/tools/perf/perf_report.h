#pragma once

// The table that `tutti perf` prints, and the same as JSON lines and as rows with commas.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/tools/perf/perf_options.h"

namespace tutti::tools {

/// What ran, as the communicator says afterwards.
struct PerfRan {
  std::string algorithm = "exchange";  ///< of sends and receives, which have no plan
  std::string protocol;                ///< "simple" or "mapped"; empty of an exchange
  int channels = 0;                    ///< of an exchange 0
};

/// One measured variant (out of place or in place) of one size.
struct PerfTiming {
  double timeUs = 0;  ///< of one call: the median; in nccl-tests' programs the mean
  double p99Us = 0;
  /// Of each time that the range was gone over; timeUs and p99Us are the medians over them.
  std::vector<double> repetitionsUs = {};
  double algorithmGBps = 0, busGBps = 0;
  int64_t wrong = -1;  ///< elements that differ, over all ranks; -1 when not checked
  int iterations = 0;
  PerfRan ran = {};  ///< the last of the calls

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

/// Where it was measured.
struct PerfPlace {
  int ranks = 1, hosts = 1;
};

std::string perfHeader(const PerfOptions& options, int ranks, const std::string& hosts);
std::string perfLine(const PerfOptions& options, const PerfRow& row);
std::string perfFooter(const PerfTotals& totals, bool checked);
std::string perfJson(const PerfOptions& options, PerfPlace place, const PerfRow& row);
/// The line of titles, and a row's lines: one out of place, and one in place where that is
/// possible.
std::string perfCsvTitles();
std::string perfCsv(const PerfOptions& options, PerfPlace place, const PerfRow& row);

/// The repetitions of one size, and what stands for them: medians of the times, all of the calls,
/// the most elements that are wrong, and what ran last.
PerfRow mergedRepetitions(const std::vector<PerfRow>& repetitions, double busFactor);

}  // namespace tutti::tools
