#include "src/tools/simulate/simulate_report.h"

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/json.h"
#include "src/tools/perf/perf_report.h"

namespace tutti::tools {
namespace {

// The algorithm stands beside its mark.
const base::TextTable& simulateTable() {
  static const base::TextTable table(
      {{9, 0}, {12}, {14, 1, true}, {14, 1}, {10}, {10}, {10}, {11}, {7}, {8}});
  return table;
}

}  // namespace

double SimulateRow::algorithmGBps() const {
  // A barrier of one rank has neither bytes nor time.
  return bytes > 0 ? static_cast<double>(bytes) / microseconds.value() / 1e3 : 0;
}

double SimulateRow::timesBound() const {
  const double bound = bounds.microseconds();
  return bound > 0 ? microseconds.value() / bound : 1;
}

std::string simulateHeader(const SimulateOptions& options, const topology::Cluster& cluster) {
  return base::message("# ", plan::toString(options.collective), " of ", toString(options.type),
                       " on ", cluster.describe(), "\n") +
         "# *: the fastest. bounds: what no plan can be faster than, by latency and by bandwidth; "
         "ratio: time over the larger.\n"
         "# walked: how many ranks were walked step by step, one for all that are alike.\n" +
         simulateTable().comment({"ranks", "size", " algorithm", "time", "algbw", "busbw",
                                  "latency", "bandwidth", "ratio", "walked"}) +
         simulateTable().comment(
             {"", "(B)", "", "(us)", "(GB/s)", "(GB/s)", "bound (us)", "bound (us)"});
}

std::string simulateLine(const SimulateOptions& options, const SimulateRow& row) {
  base::TextTable::Cells cells{std::to_string(row.ranks), std::to_string(row.bytes),
                               (row.fastest ? "*" : " ") + row.algorithm};
  if (!row.microseconds) {
    cells.push_back(" skipped: " + row.refusal);
    return simulateTable().row(cells);
  }
  const double algbw = row.algorithmGBps();
  cells.push_back(base::fixed(*row.microseconds, 2));
  cells.push_back(base::fixed(algbw, 3));
  cells.push_back(base::fixed(algbw * busFactor(options.collective, row.ranks), 3));
  cells.push_back(base::fixed(row.bounds.latencyMicroseconds, 2));
  cells.push_back(base::fixed(row.bounds.bandwidthMicroseconds, 2));
  cells.push_back(base::fixed(row.timesBound(), 2));
  cells.push_back(std::to_string(row.ranksWalked));
  return simulateTable().row(cells);
}

std::string simulateJson(const SimulateOptions& options, const topology::Cluster& cluster,
                         const SimulateRow& row) {
  Json json{{"collective", plan::toString(options.collective)},
            {"topology", cluster.name},
            {"ranks", row.ranks},
            {"bytes", row.bytes},
            {"type", toString(options.type)},
            {"channels", options.channels},
            {"algorithm", row.algorithm},
            {"latency_bound_us", row.bounds.latencyMicroseconds},
            {"bandwidth_bound_us", row.bounds.bandwidthMicroseconds}};
  if (!row.microseconds) {
    json["skipped"] = row.refusal;
    return jsonLine(json);
  }
  json["us"] = *row.microseconds;
  json["algbw_GBps"] = row.algorithmGBps();
  json["busbw_GBps"] = row.algorithmGBps() * busFactor(options.collective, row.ranks);
  json["ratio"] = row.timesBound();
  json["ranks_walked"] = row.ranksWalked;
  json["fastest"] = row.fastest;
  return jsonLine(json);
}

}  // namespace tutti::tools
