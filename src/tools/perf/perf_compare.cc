#include "src/tools/perf/perf_compare.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/read_json.h"
#include "src/tools/common/units.h"
#include "src/tools/perf/perf_options.h"

namespace tutti::tools {
namespace {

constexpr int kMostComparedRanks = 1'000'000;
constexpr uint64_t kMostComparedBytes = uint64_t{1} << 50;
constexpr double kLeastUs = 1e-6, kMostUs = 1e12;
constexpr size_t kMostRepetitions = 1000, kCallsNamed = 20;

/// Also the name of an exchange.
std::string collectiveIn(const nlohmann::json& row) {
  PerfOptions options;
  options.collectiveName = row.at("collective").get<std::string>();
  setCollective(options);
  return options.collectiveName;
}

std::string typeIn(const nlohmann::json& row) {
  const std::string name = row.at("type").get<std::string>();
  if (!parseDataType(name)) throw std::runtime_error("there is no such type");
  return name;
}

std::string opIn(const nlohmann::json& row) {
  const std::string name = row.at("op").get<std::string>();
  if (name != "none" && !parseReduceOp(name)) throw std::runtime_error("there is no such op");
  return name;
}

/// The medians of the repetitions.
std::vector<double> timesIn(const nlohmann::json& timing) {
  if (!timing.is_object()) throw std::runtime_error("a timing is no object");
  const auto& repetitions = timing.at("repetitions_us");
  if (!repetitions.is_array() || repetitions.empty() || repetitions.size() > kMostRepetitions)
    throw std::runtime_error(
        base::message("repetitions_us is no list of 1 to ", kMostRepetitions, " times"));
  std::vector<double> times;
  for (const auto& time : repetitions)
    times.push_back(numberIn(time, "a time of repetitions_us", kLeastUs, kMostUs));
  return times;
}

ComparedRow comparedRowOf(const ComparedCall& call, const std::vector<double>& a,
                          const std::vector<double>& b) {
  const MedianInterval timeA = medianOf(a), timeB = medianOf(b);
  ComparedRow row{
      .call = call, .aUs = timeA.middle, .bUs = timeB.middle, .ratio = timeB.middle / timeA.middle};
  if (a.size() > 1 && b.size() > 1)
    row.spread = {timeB.least / timeA.most, row.ratio, timeB.most / timeA.least};
  return row;
}

/// Where the whole spread is on one side.
const char* fasterOf(const ComparedRow& row) {
  if (!row.spread) return "";
  return row.spread->most < 1 ? "B is faster" : row.spread->least > 1 ? "A is faster" : "";
}

std::string unmatched(const std::string& file, const std::vector<ComparedCall>& calls) {
  std::string text;
  for (size_t i = 0; i < std::min(calls.size(), kCallsNamed); ++i)
    text += base::message("# only in ", file, ": ", calls[i].series(), ", ", calls[i].bytes,
                          " bytes\n");
  if (calls.size() > kCallsNamed)
    text += base::message("# only in ", file, ": ", calls.size() - kCallsNamed, " more\n");
  return text;
}

ComparedTimes readPerfFile(const std::string& name) {
  std::istringstream lines = jsonLinesOf("--compare", name);
  return readPerf(lines, "--compare " + name);
}

}  // namespace

std::string ComparedCall::series() const {
  return base::message(collective, " of ", type, op == "none" ? "" : ", " + op,
                       root < 0 ? "" : base::message(", root ", root), ", ",
                       countText(static_cast<uint64_t>(ranks), "rank"),
                       inPlace ? ", in place" : "");
}

ComparedTimes readPerf(std::istream& lines, const std::string& where) {
  ComparedTimes times;
  readJsonLines(lines, where, [&](const nlohmann::json& row) {
    ComparedCall call{.collective = collectiveIn(row), .type = typeIn(row), .op = opIn(row)};
    call.ranks = numberOf(row, "ranks", 1, kMostComparedRanks);
    call.root = numberOf(row, "root", -1, call.ranks - 1);
    call.bytes = numberOf(row, "bytes", uint64_t{0}, kMostComparedBytes);
    for (const char* place : {"out_of_place", "in_place"}) {
      call.inPlace = std::string(place) == "in_place";
      if (call.inPlace && row.at(place).is_null()) continue;
      if (!times.emplace(call, timesIn(row.at(place))).second)
        throw std::runtime_error(base::message(call.series(), ", ", call.bytes,
                                               " bytes, is there already: take --repeat to measure "
                                               "several times"));
    }
  });
  return times;
}

PerfComparison compared(const ComparedTimes& a, const ComparedTimes& b) {
  PerfComparison comparison;
  for (const auto& [call, times] : a) {
    const auto found = b.find(call);
    if (found == b.end())
      comparison.onlyA.push_back(call);
    else
      comparison.rows.push_back(comparedRowOf(call, times, found->second));
  }
  for (const auto& [call, times] : b)
    if (!a.contains(call)) comparison.onlyB.push_back(call);
  return comparison;
}

PerfComparison compareFiles(const std::string& a, const std::string& b) {
  PerfComparison comparison = compared(readPerfFile(a), readPerfFile(b));
  comparison.a = a;
  comparison.b = b;
  const auto first = [](const std::vector<ComparedCall>& calls) {
    return calls.empty() ? "nothing" : calls.front().series();
  };
  TUTTI_REQUIRE(!comparison.rows.empty(), "--compare: no call is in both files: ", a, " has ",
                first(comparison.onlyA), ", and ", b, " ", first(comparison.onlyB));
  return comparison;
}

std::string comparisonText(const PerfComparison& comparison) {
  const base::TextTable table({{12, 0},
                               {5},
                               {11},
                               {11},
                               {4},
                               {5},
                               {10},
                               {10},
                               {7},
                               {7},
                               {7},
                               {15, 2, true},
                               {11, 2, true}});
  std::string text = base::message("# A: ", comparison.a, "\n# B: ", comparison.b, "\n") +
                     "# ratio is B's time over A's; least and most are what the 95% intervals of "
                     "both medians allow, - without --repeat\n"
                     "# before 6 repetitions an interval is from the least to the most of them\n";
  text += table.comment({"size", "place", "type", "redop", "root", "ranks", "A", "B", "ratio",
                         "least", "most", "collective"});
  text += table.comment({"(B)", "", "", "", "", "", "(us)", "(us)"});
  double logarithms = 0;
  for (const ComparedRow& row : comparison.rows) {
    const ComparedCall& call = row.call;
    const auto end = [&](double MedianInterval::*member) {
      return row.spread ? base::fixed((*row.spread).*member, 3) : "-";
    };
    text +=
        table.row({std::to_string(call.bytes), call.inPlace ? "in" : "out", call.type, call.op,
                   std::to_string(call.root), std::to_string(call.ranks), base::fixed(row.aUs, 2),
                   base::fixed(row.bUs, 2), base::fixed(row.ratio, 3), end(&MedianInterval::least),
                   end(&MedianInterval::most), call.collective, fasterOf(row)});
    logarithms += std::log(row.ratio);
  }
  const auto count = static_cast<double>(comparison.rows.size());
  text += base::message("# B takes ", base::fixed(std::exp(logarithms / count), 3),
                        " times A's time, in the geometric mean of ",
                        countText(comparison.rows.size(), "row"), "\n");
  return text + unmatched(comparison.a, comparison.onlyA) +
         unmatched(comparison.b, comparison.onlyB);
}

}  // namespace tutti::tools
