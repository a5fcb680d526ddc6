#include "src/tools/perf/perf_report.h"

#include <algorithm>
#include <sstream>

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/json.h"
#include "src/tools/common/median.h"

namespace tutti::tools {
namespace {

const base::TextTable& perfTable() {
  static const base::TextTable table(
      {{12, 0}, {12}, {11}, {8}, {4}, {9}, {9}, {7}, {7}, {6}, {9}, {9}, {7}, {7}, {6}});
  return table;
}

void addTiming(base::TextTable::Cells& cells, const std::optional<PerfTiming>& timing) {
  if (!timing) {
    cells.insert(cells.end(), 5, "N/A");
    return;
  }
  for (const double value : {timing->timeUs, timing->p99Us, timing->algorithmGBps, timing->busGBps})
    cells.push_back(base::fixed(value, 2));
  cells.push_back(timing->wrong < 0 ? "N/A" : std::to_string(timing->wrong));
}

int shownRoot(const PerfOptions& options) { return options.hasRoot() ? options.root : -1; }

const char* shownOp(const PerfOptions& options) {
  return plan::isReduction(options.collective) ? toString(options.op) : "none";
}

Json timingJson(const std::optional<PerfTiming>& timing) {
  if (!timing) return nullptr;
  const PerfTiming& t = *timing;
  const PerfRan& ran = t.ran;
  return {{"median_us", t.timeUs},
          {"p99_us", t.p99Us},
          {"repetitions_us", t.repetitionsUs},
          {"algbw_GBps", t.algorithmGBps},
          {"busbw_GBps", t.busGBps},
          {"wrong", t.wrong},
          {"iterations", t.iterations},
          {"ran",
           {{"algorithm", ran.algorithm},
            {"protocol", ran.protocol.empty() ? Json(nullptr) : Json(ran.protocol)},
            {"channels", ran.channels == 0 ? Json(nullptr) : Json(ran.channels)}}}};
}

/// The same timing of several repetitions.
PerfTiming mergedTimings(const std::vector<PerfTiming>& all, uint64_t bytes, double busFactor) {
  PerfTiming merged = all.back();
  std::vector<double> times, late;
  merged.iterations = 0;
  for (const PerfTiming& one : all) {
    times.push_back(one.timeUs);
    late.push_back(one.p99Us);
    merged.wrong = std::max(merged.wrong, one.wrong);
    merged.iterations += one.iterations;
  }
  merged.repetitionsUs = times;
  merged.timeUs = medianOf(times).middle;
  merged.p99Us = medianOf(late).middle;
  merged.setBandwidths(bytes, merged.timeUs, busFactor);
  return merged;
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
  std::string text = base::message("# ", options.collectiveName, ": ", ranks, " ranks");
  if (options.collective != Collective::Barrier)
    text += base::message(", ", options.minBytes, " to ", options.maxBytes, " bytes, memory ",
                          options.windows ? "from allocate" : "ordinary");
  text += std::string(", check ") + (options.check ? "on" : "off") + "\n" + hosts;
  text +=
      "# time is the median over the calls, p99 their 99th percentile; a call takes as long as on "
      "its slowest rank\n";
  if (options.repetitions > 1)
    text += base::message("# of ", options.repetitions, " times over all sizes, the medians\n");
  const base::TextTable& table = perfTable();
  text += "#" + std::string(53, ' ') + "out-of-place" + std::string(41, ' ') + "in-place\n";
  text += table.comment({"size", "count", "type", "redop", "root", "time", "p99", "algbw", "busbw",
                         "#wrong", "time", "p99", "algbw", "busbw", "#wrong"});
  text += table.comment({"(B)", "(elements)", "", "", "", "(us)", "(us)", "(GB/s)", "(GB/s)", "",
                         "(us)", "(us)", "(GB/s)", "(GB/s)"});
  return text;
}

std::string perfLine(const PerfOptions& options, const PerfRow& row) {
  base::TextTable::Cells cells{std::to_string(row.bytes), std::to_string(row.count),
                               toString(options.type), shownOp(options),
                               std::to_string(shownRoot(options))};
  addTiming(cells, row.outOfPlace);
  addTiming(cells, row.inPlace);
  return perfTable().row(cells);
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
  return base::message("# Out of bounds values : ", totals.wrong(),
                       !checked              ? " NOT CHECKED"
                       : totals.wrong() == 0 ? " OK"
                                             : " FAILED",
                       "\n# Avg bus bandwidth    : ", totals.averageBusGBps(), "\n#\n");
}

std::string perfJson(const PerfOptions& options, PerfPlace place, const PerfRow& row) {
  return jsonLine(Json{{"collective", options.collectiveName},
                       {"ranks", place.ranks},
                       {"hosts", place.hosts},
                       {"bytes", row.bytes},
                       {"count", row.count},
                       {"type", toString(options.type)},
                       {"op", shownOp(options)},
                       {"root", shownRoot(options)},
                       {"memory", options.windows ? "window" : "ordinary"},
                       {"device", options.device},
                       {"algorithm", options.algorithm.empty() ? "automatic" : options.algorithm},
                       {"out_of_place", timingJson(row.outOfPlace)},
                       {"in_place", timingJson(row.inPlace)}});
}

std::string perfCsvTitles() {
  return "collective,type,op,root,ranks,hosts,memory,device,bytes,count,in_place,time_us,p99_us,"
         "algbw_GBps,busbw_GBps,algorithm,protocol,channels,wrong,iterations,repetitions\n";
}

std::string perfCsv(const PerfOptions& options, PerfPlace place, const PerfRow& row) {
  const auto line = [&](const PerfTiming& t, bool inPlace) {
    const auto number = [](double value) { return Json(value).dump(); };
    const auto ifAny = [](auto value, bool any) { return any ? std::to_string(value) : ""; };
    return base::message(
        options.collectiveName, ",", toString(options.type), ",", shownOp(options), ",",
        shownRoot(options), ",", place.ranks, ",", place.hosts, ",",
        options.windows ? "window" : "ordinary", ",", options.device, ",", row.bytes, ",",
        row.count, ",", inPlace ? 1 : 0, ",", number(t.timeUs), ",", number(t.p99Us), ",",
        number(t.algorithmGBps), ",", number(t.busGBps), ",", t.ran.algorithm, ",", t.ran.protocol,
        ",", ifAny(t.ran.channels, t.ran.channels > 0), ",", ifAny(t.wrong, t.wrong >= 0), ",",
        t.iterations, ",", t.repetitionsUs.size(), "\n");
  };
  return line(row.outOfPlace, false) + (row.inPlace ? line(*row.inPlace, true) : "");
}

PerfRow mergedRepetitions(const std::vector<PerfRow>& repetitions, double busFactor) {
  PerfRow merged = repetitions.at(0);
  std::vector<PerfTiming> outOfPlace, inPlace;
  for (const PerfRow& row : repetitions) {
    outOfPlace.push_back(row.outOfPlace);
    if (row.inPlace) inPlace.push_back(*row.inPlace);
  }
  merged.outOfPlace = mergedTimings(outOfPlace, merged.bytes, busFactor);
  if (!inPlace.empty()) merged.inPlace = mergedTimings(inPlace, merged.bytes, busFactor);
  return merged;
}

}  // namespace tutti::tools
