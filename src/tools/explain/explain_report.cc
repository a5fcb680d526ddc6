#include "src/tools/explain/explain_report.h"

#include <algorithm>

#include "collectives/cost_walk.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/json.h"
#include "src/tools/common/units.h"

namespace tutti::tools {
namespace {

using collectives::Candidate;
using collectives::Choice;

// Of the table of sizes.
constexpr uint64_t kLeastExplained = 8, kLargestExplained = uint64_t{1} << 30;

ExplainedAlgorithm explainedAlgorithm(const Candidate& candidate, const Situation& s) {
  const plan::PlanSpec& spec = candidate.spec;
  const auto& info = collectives::infoOf(spec, s.file);
  const collectives::Cost cost = info.cost(spec);
  const double latency = collectives::predictMicroseconds(info, spec, 1, s.topology, s.tuning);
  const double sent = cost.blocksSent * static_cast<double>(s.request.blockBytes());
  return {.algorithm = toString(spec.algorithm),
          .protocol = toString(spec.protocol),
          .channels = spec.channels,
          .predictedUs = candidate.microseconds,
          .oneByteUs = std::min(latency, candidate.microseconds),
          .messages = cost.steps,
          .sentBytes = static_cast<uint64_t>(sent)};
}

ExplainedRange explainedRange(const Choice& choice) {
  return {.algorithm = toString(choice.spec.algorithm),
          .channels = choice.spec.channels,
          .mapped = choice.mapped ? toString(choice.mapped->algorithm) : "",
          .attached = choice.attached ? toString(choice.attached->algorithm) : ""};
}

bool isAlike(const ExplainedRange& a, const ExplainedRange& b) {
  return a.algorithm == b.algorithm && a.channels == b.channels && a.mapped == b.mapped &&
         a.attached == b.attached;
}

/// What is chosen as blocks grow.
std::vector<ExplainedRange> explainedRanges(const Situation& s) {
  std::vector<ExplainedRange> ranges;
  for (uint64_t bytes = kLeastExplained; bytes <= kLargestExplained; bytes *= 2) {
    plan::CollectiveRequest request = s.request;
    request.count = std::max<uint64_t>(1, bytes / sizeOf(request.type));
    const ExplainedRange next =
        explainedRange(collectives::choose(request, s.topology, s.tuning, s.file));
    if (!ranges.empty() && isAlike(ranges.back(), next)) continue;
    if (!ranges.empty()) ranges.back().mostBytes = bytes / 2;
    ranges.push_back(next);
  }
  return ranges;
}

std::string rangeText(const ExplainedRange& range) {
  std::string chosen = range.algorithm;
  if (range.channels > 1) chosen += base::message(", ", range.channels, " channels");
  if (!range.mapped.empty())
    chosen += "; " + range.mapped + " without staging where all buffers are mapped";
  if (!range.attached.empty())
    chosen += "; " + range.attached + " by reading others' memory where they are not";
  return base::TextTable({{6, 2, true}, {10, 0}, {0, 2, true}})
      .row({range.mostBytes ? "up to " : "beyond",
            range.mostBytes ? bytesText(*range.mostBytes) : "", chosen});
}

std::string algorithmsText(const Explanation& e) {
  std::vector<base::TableColumn> columns{{1, 0, true}, {12, 1}, {12, 1}};
  if (e.measured) columns.push_back({12, 1});
  columns.insert(columns.end(), {{8, 1}, {14, 1}, {0, 2, true}});
  const base::TextTable table(columns);
  const auto row = [&](const std::string& mark, const std::string& predicted,
                       const std::string& oneByte, const std::string& measured,
                       const base::TextTable::Cells& rest) {
    base::TextTable::Cells cells{mark, predicted, oneByte};
    if (e.measured) cells.push_back(measured);
    cells.insert(cells.end(), rest.begin(), rest.end());
    return table.row(cells);
  };
  std::string text = row("", "predicted us", "for one byte", "measured us",
                         {"messages", "sent by a rank", "algorithm"});
  for (const ExplainedAlgorithm& a : e.algorithms)
    text +=
        row(a.chosen ? "*" : "", base::fixed(a.predictedUs, 2), base::fixed(a.oneByteUs, 2),
            a.measuredUs ? base::fixed(*a.measuredUs, 2) : "-",
            {std::to_string(a.messages), bytesText(a.sentBytes),
             base::message(a.algorithm, a.protocol == "simple" ? ", " : ", " + a.protocol + ", ",
                           countText(static_cast<uint64_t>(a.channels), "channel"))});
  return text;
}

Json algorithmJson(const ExplainedAlgorithm& a) {
  return {{"algorithm", a.algorithm},
          {"protocol", a.protocol},
          {"channels", a.channels},
          {"chosen", a.chosen},
          {"predicted_us", a.predictedUs},
          {"one_byte_us", a.oneByteUs},
          {"measured_us", a.measuredUs ? Json(*a.measuredUs) : Json(nullptr)},
          {"messages", a.messages},
          {"sent_bytes", a.sentBytes}};
}

Json rangeJson(const ExplainedRange& range) {
  return {{"most_bytes", range.mostBytes ? Json(*range.mostBytes) : Json(nullptr)},
          {"algorithm", range.algorithm},
          {"channels", range.channels},
          {"mapped", range.mapped.empty() ? Json(nullptr) : Json(range.mapped)},
          {"attached", range.attached.empty() ? Json(nullptr) : Json(range.attached)}};
}

}  // namespace

Explanation explain(const Situation& s) {
  const Choice choice = collectives::choose(s.request, s.topology, s.tuning, s.file);
  Explanation e{.request = s.request, .topology = s.topology, .reason = choice.reason};
  for (const Candidate& candidate : choice.candidates) {
    ExplainedAlgorithm& a = e.algorithms.emplace_back(explainedAlgorithm(candidate, s));
    a.chosen = candidate.spec == choice.spec || candidate.spec == choice.mapped ||
               candidate.spec == choice.attached;
    if (!s.times) continue;
    const auto measured = std::ranges::find_if(*s.times, [&](const auto& entry) {
      return collectives::isNamed(candidate.spec, entry.first);
    });
    if (measured != s.times->end()) a.measuredUs = measured->second.median();
  }
  e.measured = s.times != nullptr;
  if (s.times) e.calledUs = s.times->at(kChosen).median();
  e.ranges = explainedRanges(s);
  return e;
}

std::string explanationText(const Explanation& e) {
  std::string text = e.topology.describe() + "\n" + e.reason + "\n\n" + algorithmsText(e);
  if (e.calledUs)
    text += "\nAs it is called, without forcing anything: " + base::fixed(*e.calledUs, 2) + " us\n";
  text += "\nBlocks of\n";
  for (const ExplainedRange& range : e.ranges) text += rangeText(range);
  return text;
}

std::string explanationJson(const Explanation& e) {
  const plan::CollectiveRequest& r = e.request;
  return jsonLine(
      Json{{"collective", toString(r.collective)},
           {"type", toString(r.type)},
           {"op", plan::isReduction(r.collective) ? Json(toString(r.op)) : Json(nullptr)},
           {"root", plan::hasRoot(r.collective) ? Json(r.root) : Json(nullptr)},
           {"count", r.count},
           {"block_bytes", r.blockBytes()},
           {"deterministic", r.deterministic},
           {"ranks", e.topology.ranks},
           {"hosts", e.topology.hosts()},
           {"cores", e.topology.cores},
           {"topology", e.topology.describe()},
           {"reason", e.reason},
           {"algorithms", arrayOf(e.algorithms, algorithmJson)},
           {"called_us", e.calledUs ? Json(*e.calledUs) : Json(nullptr)},
           {"ranges", arrayOf(e.ranges, rangeJson)}});
}

}  // namespace tutti::tools
