// What `tutti shard` says, for people: the tensors, what kind of case each axis is, the way that
// sends least step by step, and how it compares.

#include <algorithm>

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/page.h"
#include "src/tools/common/units.h"
#include "src/tools/shard/shard_report.h"

namespace tutti::tools {
namespace {

using base::message;
using base::TextTable;
using Rows = std::vector<TextTable::Cells>;

std::string shapeText(const parallel::Shape& shape) {
  if (shape.rank() == 0) return "1";
  std::string text;
  for (int d = 0; d < shape.rank(); ++d) text += message(d == 0 ? "" : " x ", shape[d]);
  return text;
}

std::string head(const ShardReport& report) {
  return message(report.product, "\n", toString(report.type), " on ",
                 countText(static_cast<uint64_t>(report.ranks), "rank"), ", ", report.mesh, "\n\n");
}

std::string tensors(const ShardReport& report) {
  Page page(0);
  Rows rows{{"", "whole", "", "the largest part", ""}};
  for (const ShardTensor& t : report.tensors)
    rows.push_back({t.text, shapeText(t.shape), bytesText(t.bytes), shapeText(t.part),
                    bytesText(t.partBytes)});
  page.rows(TextTable::fitting(rows));
  return std::move(page).take();
}

std::string cases(const ShardReport& report) {
  if (report.cases.empty()) return "";
  Page page(11);
  page.heading("Axes");
  for (const ShardCase& c : report.cases)
    page.line(c.number == 0 ? std::string(1, c.axis) : message(c.axis, "  case ", c.number),
              c.words);
  return std::move(page).take();
}

std::string stepText(const ShardStep& step) {
  if (step.axis == 0) return message("each rank multiplies, ", flopText(step.flops));
  std::string text = message(step.what, " over ", step.axis);
  if (step.sentBytes == 0) return text + ", nothing is sent";
  text += message(", sends ", bytesText(step.sentBytes), ", ", timeText(step.microseconds));
  return text + " by " + step.algorithm;
}

std::string steps(const ShardReport& report) {
  const ShardWay& best = report.ways.front();
  Page page(3);
  page.heading("Steps");
  Rows rows;
  for (const ShardStep& step : best.steps)
    rows.push_back(
        {message(rows.size() + 1, "  ", step.before, " -> ", step.after), stepText(step)});
  page.rows(TextTable::fitting(rows));
  const std::string sends =
      best.sentBytes == 0 ? "A rank sends nothing"
                          : message("A rank sends ", bytesText(best.sentBytes),
                                    ", which is predicted to take ", timeText(best.microseconds));
  page.line("", message(sends, ", and computes ", flopText(best.flops), " of ",
                        flopText(report.flops), "."));
  return std::move(page).take();
}

/// "AllGather A x, multiply, AllReduce C x".
std::string wayText(const ShardWay& way) {
  std::string text;
  for (const ShardStep& step : way.steps) {
    text += text.empty() ? "" : ", ";
    text += step.axis == 0 ? step.what : message(step.what, " ", step.tensor, " ", step.axis);
  }
  return text;
}

std::string ways(const ShardReport& report) {
  if (report.ways.size() == 1) return "";
  Page page(0);
  page.heading("Ways, those that send least first; a star marks the fastest, as predicted");
  const auto fastest = std::ranges::min_element(report.ways, {}, &ShardWay::microseconds);
  Rows rows{{"", "sent", "takes", "computes", ""}};
  for (const ShardWay& way : report.ways)
    rows.push_back({&way == &*fastest ? "*" : "", bytesText(way.sentBytes),
                    timeText(way.microseconds), flopText(way.flops), wayText(way)});
  page.rows(TextTable::fitting(rows, "rrrrl"));
  return std::move(page).take();
}

std::string halves(const ShardReport& report) {
  if (!report.halves) return "";
  const auto& [bytes, whole, first, second] = *report.halves;
  Page page(3);
  page.heading(
      "Why an AllReduce sends twice what an AllGather sends: it is a ReduceScatter, then one");
  Rows rows;
  for (const ShardStep* step : {&whole, &first, &second})
    rows.push_back({message("   ", step->before, " -> ", step->after), stepText(*step)});
  page.rows(TextTable::fitting(rows));
  page.line("", message("Of S = ", bytesText(bytes), " on p = ", whole.ranks,
                        " ranks each half sends S (p-1)/p from a rank: first its summands of all ",
                        "parts but its own, then the sum of its own part to all others, by way of ",
                        "neighbours. Where ", first.after, " will do, the second half is spared."));
  return std::move(page).take();
}

}  // namespace

std::string shardText(const ShardReport& report) {
  return head(report) + tensors(report) + cases(report) + steps(report) + ways(report) +
         halves(report);
}

}  // namespace tutti::tools
