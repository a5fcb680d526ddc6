#include "src/tools/nccl_perf/nccl_perf_report.h"

#include <ctime>
#include <iomanip>
#include <sstream>

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/json.h"

namespace tutti::tools {
namespace {

const char* opOf(const NcclPerfOptions& o, const NcclPerfRow& row) {
  return plan::isReduction(o.perf.collective) ? ncclName(row.op) : "none";
}

int rootOf(const NcclPerfOptions& o, const NcclPerfRow& row) {
  return o.perf.hasRoot() ? row.root : -1;
}

/// Seven characters, where that is possible.
std::string sevenCharacters(double us) {
  return base::fixed(us, us < 100 ? 2 : us < 10'000 ? 1 : 0);
}

const base::TextTable& ncclTable() {
  static const base::TextTable table(
      {{12, 0}, {12}, {8}, {6}, {6}, {7}, {6}, {6}, {6}, {7}, {6}, {6}, {6}, {0, 2, true}});
  return table;
}

void addNcclTiming(base::TextTable::Cells& cells, const std::optional<PerfTiming>& timing) {
  if (!timing) {
    cells.insert(cells.end(), 4, "N/A");
    return;
  }
  cells.push_back(sevenCharacters(timing->timeUs));
  cells.push_back(base::fixed(timing->algorithmGBps, 2));
  cells.push_back(base::fixed(timing->busGBps, 2));
  cells.push_back(timing->wrong < 0 ? "N/A" : std::to_string(timing->wrong));
}

std::string timeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::ostringstream out;
  out << std::put_time(&parts, "%Y-%m-%d %H:%M:%S");
  return out.str();
}

/// How the time column came about.
std::string timeSentence(const NcclPerfOptions& o) {
  constexpr const char* kOf[] = {"on rank 0", "averaged over the ranks", "on the fastest rank",
                                 "on the slowest rank"};
  const char* calls = o.aggregated > 1 ? " iterations of groups" : " iterations";
  const std::string launches =
      o.graphLaunches > 0
          ? base::message(", as a CUDA graph that is launched ", o.graphLaunches, " times,")
          : "";
  return base::message("# time is that of ", o.iterations, calls, launches,
                       " back to back, divided by the calls, ", kOf[static_cast<size_t>(o.average)],
                       o.cpuTime ? "; cputime is how long they took to be made\n" : "\n");
}

Json timingJson(const std::optional<PerfTiming>& timing, const char* time) {
  if (!timing) return nullptr;
  return {{time, timing->timeUs},
          {"alg_bw", timing->algorithmGBps},
          {"bus_bw", timing->busGBps},
          {"nwrong", timing->wrong < 0 ? Json(nullptr) : Json(timing->wrong)}};
}

}  // namespace

std::string ncclPerfHeader(const NcclPerfOptions& o, const std::string& communicator) {
  std::ostringstream out;
  const bool byFactor = o.perf.factor > 1;
  out << "# nThread " << o.threads << " nGpus " << o.gpus << " minBytes " << o.perf.minBytes
      << " maxBytes " << o.perf.maxBytes << " step: ";
  if (byFactor)
    out << o.perf.factor << "(factor)";
  else
    out << o.perf.stepBytes << "(bytes)";
  out << " warmup iters: " << o.warmups << " iters: " << o.iterations
      << " agg iters: " << o.aggregated << " validation: " << o.checks
      << " graph: " << o.graphLaunches << "\n"
      << "#\n# " << o.program << " on " << (o.perf.device == "host" ? "host" : "GPU") << " memory, "
      << (o.perf.windows ? "registered" : "not registered") << ", "
      << (o.completesCalls() ? "without streams" : "on streams")
      << (o.blocking ? ", each iteration waited for by a barrier\n" : "\n")
      << commented(communicator) << "#\n"
      << timeSentence(o) << "#\n";
  const char* time = o.cpuTime ? "cputime" : "time";
  out << "#" << std::string(67, ' ') << "out-of-place" << std::string(21, ' ') << "in-place\n"
      << ncclTable().comment({"size", "count", "type", "redop", "root", time, "algbw", "busbw",
                              "#wrong", time, "algbw", "busbw", "#wrong",
                              o.timestamps ? "timestamp" : ""})
      << ncclTable().comment({"(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "",
                              "(us)", "(GB/s)", "(GB/s)"});
  return out.str();
}

std::string ncclPerfLine(const NcclPerfOptions& o, const NcclPerfRow& row) {
  base::TextTable::Cells cells{std::to_string(row.times.bytes), std::to_string(row.times.count),
                               ncclName(row.type), opOf(o, row), std::to_string(rootOf(o, row))};
  addNcclTiming(cells, row.times.outOfPlace);
  addNcclTiming(cells, row.times.inPlace);
  if (o.timestamps) cells.push_back(timeOfDay());
  return ncclTable().row(cells);
}

std::string ncclPerfJson(const NcclPerfOptions& o, int ranks, const std::vector<NcclPerfRow>& rows,
                         const PerfTotals& totals) {
  const char* time = o.cpuTime ? "cpu_time" : "time";
  Json results = Json::array();
  for (const NcclPerfRow& row : rows)
    results.push_back({{"size", row.times.bytes},
                       {"count", row.times.count},
                       {"type", ncclName(row.type)},
                       {"redop", opOf(o, row)},
                       {"root", rootOf(o, row)},
                       {"out_of_place", timingJson(row.times.outOfPlace, time)},
                       {"in_place", timingJson(row.times.inPlace, time)}});
  const Json json{{"program", o.program},
                  {"ranks", ranks},
                  {"nthreads", o.threads},
                  {"ngpus", o.gpus},
                  {"minbytes", o.perf.minBytes},
                  {"maxbytes", o.perf.maxBytes},
                  {"warmup_iters", o.warmups},
                  {"iters", o.iterations},
                  {"agg_iters", o.aggregated},
                  {"graph", o.graphLaunches},
                  {"results", std::move(results)},
                  {"out_of_bounds", {{"count", totals.wrong()}, {"okay", totals.wrong() == 0}}},
                  {"average_bus_bandwidth", {{"bandwidth", totals.averageBusGBps()}}}};
  return json.dump(2) + "\n";
}

}  // namespace tutti::tools
