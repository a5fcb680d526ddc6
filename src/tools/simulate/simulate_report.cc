#include "src/tools/simulate/simulate_report.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/tools/common/json.h"
#include "src/tools/perf/perf_report.h"

namespace tutti::tools {

double SimulateRow::algorithmGBps() const {
  // A barrier of one rank has neither bytes nor time.
  return bytes > 0 ? static_cast<double>(bytes) / microseconds.value() / 1e3 : 0;
}

double SimulateRow::timesBound() const {
  const double bound = bounds.microseconds();
  return bound > 0 ? microseconds.value() / bound : 1;
}

std::string simulateHeader(const SimulateOptions& options, const topology::Cluster& cluster) {
  std::string text = base::message("# ", plan::toString(options.collective), " of ",
                                   toString(options.type), " on ", cluster.describe(), "\n");
  text +=
      "# *: the fastest. bounds: what no plan can be faster than, by latency and by bandwidth; "
      "ratio: time over the larger.\n"
      "# walked: how many ranks were walked step by step, one for all that are alike.\n"
      "#   ranks          size  algorithm               time       algbw       busbw     latency"
      "    bandwidth    ratio    walked\n"
      "#                   (B)                          (us)      (GB/s)      (GB/s)  bound (us)"
      "   bound (us)\n";
  return text;
}

std::string simulateLine(const SimulateOptions& options, const SimulateRow& row) {
  std::array<char, 256> line{};
  const int begun = std::snprintf(line.data(), line.size(), "%9d  %12llu %c%-13s", row.ranks,
                                  static_cast<unsigned long long>(row.bytes),
                                  row.fastest ? '*' : ' ', row.algorithm.c_str());
  if (!row.microseconds) return base::message(line.data(), "  skipped: ", row.refusal, "\n");
  const double algbw = row.algorithmGBps();
  std::snprintf(line.data() + begun, line.size() - static_cast<size_t>(begun),
                " %14.2f  %10.3f  %10.3f  %10.2f  %11.2f  %7.2f  %8zu\n", *row.microseconds, algbw,
                algbw * busFactor(options.collective, row.ranks), row.bounds.latencyMicroseconds,
                row.bounds.bandwidthMicroseconds, row.timesBound(), row.ranksWalked);
  return line.data();
}

std::string simulateJson(const SimulateOptions& options, const topology::Cluster& cluster,
                         const SimulateRow& row) {
  nlohmann::json json{{"collective", plan::toString(options.collective)},
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
