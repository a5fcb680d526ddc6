#include "src/tools/perf/perf_report.h"
#include "src/tools/common/json.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tutti::tools {
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char line[512];
  va_list args;
  va_start(args, pattern);
  std::vsnprintf(line, sizeof line, pattern, args);
  va_end(args);
  return line;
}

std::string timingText(const std::optional<PerfTiming>& timing) {
  if (!timing) return format("  %9s  %9s  %7s  %7s  %6s", "N/A", "N/A", "N/A", "N/A", "N/A");
  const PerfTiming& t = *timing;
  const std::string wrong = t.wrong < 0 ? "N/A" : std::to_string(t.wrong);
  return format("  %9.2f  %9.2f  %7.2f  %7.2f  %6s", t.timeUs, t.p99Us, t.algorithmGBps, t.busGBps,
                wrong.c_str());
}

int shownRoot(const PerfOptions& options) { return options.hasRoot() ? options.root : -1; }

nlohmann::json timingJson(const std::optional<PerfTiming>& timing) {
  if (!timing) return nullptr;
  const PerfTiming& t = *timing;
  return {{"median_us", t.timeUs},   {"p99_us", t.p99Us}, {"algbw_GBps", t.algorithmGBps},
          {"busbw_GBps", t.busGBps}, {"wrong", t.wrong},  {"iterations", t.iterations}};
}

}  // namespace

double busFactor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::AllReduce: return 2 * (n - 1) / n;
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::Gather:
    case Collective::Scatter:
    case Collective::AllToAll: return (n - 1) / n;
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::Scan:
    case Collective::Barrier: break;
  }
  return 1;
}

std::string commented(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += "# " + line + "\n";
  return out;
}

std::string perfHeader(const PerfOptions& options, int ranks, const std::string& hosts) {
  std::string text = "# " + options.collectiveName + ": " + std::to_string(ranks) + " ranks";
  if (options.collective != Collective::Barrier)
    text += ", " + std::to_string(options.minBytes) + " to " + std::to_string(options.maxBytes) +
            " bytes, memory " + (options.windows ? "from allocate" : "ordinary");
  text += std::string(", check ") + (options.check ? "on" : "off") + "\n" + hosts;
  text +=
      "# time is the median over the calls, p99 their 99th percentile; a call takes as long as on "
      "its slowest rank\n";
  text +=
      "#                                                     out-of-place                          "
      "      "
      "         in-place\n"
      "#       size         count         type     redop  root       time        p99    algbw    "
      "busbw  "
      "#wrong       time        p99    algbw    busbw  #wrong\n"
      "#        (B)    (elements)                                    (us)       (us)   (GB/s)   "
      "(GB/s)   "
      "             (us)       (us)   (GB/s)   (GB/s)\n";
  return text;
}

std::string perfLine(const PerfOptions& options, const PerfRow& row) {
  return format("%12llu  %12llu  %11s  %8s  %4d", static_cast<unsigned long long>(row.bytes),
                static_cast<unsigned long long>(row.count), toString(options.type),
                plan::isReduction(options.collective) ? toString(options.op) : "none",
                shownRoot(options)) +
         timingText(row.outOfPlace) + timingText(row.inPlace) + "\n";
}

void PerfTiming::setBandwidths(uint64_t bytes, double us, double factor) {
  algorithmGBps = static_cast<double>(bytes) / us / 1e3;
  busGBps = algorithmGBps * factor;
}

void PerfTotals::add(const PerfTiming& timing) {
  wrong_ += std::max<int64_t>(0, timing.wrong);
  busGBps_ += timing.busGBps;
  ++timings_;
}

void PerfTotals::add(const PerfRow& row) {
  add(row.outOfPlace);
  if (row.inPlace) add(*row.inPlace);
}

std::string perfFooter(const PerfTotals& totals, bool checked) {
  return format("# Out of bounds values : %lld %s\n", static_cast<long long>(totals.wrong()),
                !checked              ? "NOT CHECKED"
                : totals.wrong() == 0 ? "OK"
                                      : "FAILED") +
         format("# Avg bus bandwidth    : %g\n#\n", totals.averageBusGBps());
}

std::string perfJson(const PerfOptions& options, int ranks, const PerfRow& row) {
  return jsonLine(
      nlohmann::json{{"collective", options.collectiveName},
                     {"ranks", ranks},
                     {"bytes", row.bytes},
                     {"count", row.count},
                     {"type", toString(options.type)},
                     {"op", toString(options.op)},
                     {"root", shownRoot(options)},
                     {"algorithm", options.algorithm.empty() ? "automatic" : options.algorithm},
                     {"out_of_place", timingJson(row.outOfPlace)},
                     {"in_place", timingJson(row.inPlace)}});
}

}  // namespace tutti::tools
