// A schedule as text and as JSON.

#include "parallel/pipeline/schedule_text.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/json.h"
#include "src/tools/common/units.h"
#include "src/tools/schedule/schedule.h"

namespace tutti::tools {
namespace {

using parallel::Action;
using parallel::ActionKind;
using parallel::Costs;
using parallel::Schedule;
using parallel::Timeline;

/// "0, 7": the stages of a rank.
std::string stagesText(const Schedule& s, int rank) {
  std::string text;
  for (int chunk = 0; chunk < s.chunks; ++chunk)
    text += base::message(chunk > 0 ? ", " : "", s.stage(rank, chunk));
  return text;
}

std::string headline(const Schedule& s, const Costs& c) {
  return base::message(
      s.name, ": ", countText(static_cast<uint64_t>(s.ranks), "rank"), ", ",
      s.microBatches == 1 ? "1 micro-batch" : base::message(s.microBatches, " micro-batches"),
      s.chunks > 1 ? base::message(", ", s.chunks, " chunks") : "", "; F takes ", c.forward, ", B ",
      c.inputGradients, ", W ", c.weightGradients,
      s.splitsBackward ? "" : ", one after the other as B",
      c.transfer > 0 ? base::message(", a transfer ", c.transfer) : "", "\n\n");
}

std::string ranksText(const Schedule& s, const Timeline& timeline) {
  std::vector<base::TextTable::Cells> rows{
      {"rank", s.chunks > 1 ? "stages" : "stage", "idle", "idle in between", "activations"}};
  for (int rank = 0; rank < s.ranks; ++rank)
    rows.push_back(
        {base::message(rank), stagesText(s, rank), shareText(timeline.bubble(rank)),
         numberText(timeline.idleWithin(rank)),
         base::message(s.slots(rank), s.chunks > 1 ? base::message(" of 1/", s.chunks) : "")});
  return base::TextTable::fitting(rows);
}

Json spanOf(const parallel::Span& span, int chunks) {
  return {{"kind", toString(span.action.kind)},
          {"chunk", span.action.chunk},
          {"micro_batch", span.action.microBatch},
          {"slot", span.action.slot},
          {"begin", parallel::Fraction(span.begin, chunks).value()},
          {"end", parallel::Fraction(span.end, chunks).value()}};
}

Json rankOf(const Schedule& s, const Timeline& timeline, int rank) {
  Json stages = Json::array(), spans = Json::array(), actions = Json::array();
  for (int chunk = 0; chunk < s.chunks; ++chunk) stages.push_back(s.stage(rank, chunk));
  for (const auto& span : timeline.byRank[static_cast<size_t>(rank)])
    spans.push_back(spanOf(span, s.chunks));
  for (const Action& action : s.byRank[static_cast<size_t>(rank)])
    actions.push_back(parallel::message(action));
  return {{"rank", rank},
          {"stages", stages},
          {"idle_share", timeline.bubble(rank).value()},
          {"idle_between", timeline.idleWithin(rank).value()},
          {"slots", s.slots(rank)},
          {"waiting_forward", s.waiting(rank, ActionKind::RecvF)},
          {"waiting_backward", s.waiting(rank, ActionKind::RecvB)},
          {"spans", spans},
          {"actions", actions}};
}

}  // namespace

std::string scheduleText(const Schedule& s, const Costs& costs, bool actions) {
  const Timeline timeline = timelineOf(s, costs);
  std::string text = base::message(headline(s, costs), drawText(s, timeline), "\nA step takes ",
                                   numberText(timeline.length()), ", of which ranks idle ",
                                   shareText(timeline.bubble()), ".\n\n", ranksText(s, timeline));
  if (actions) text += base::message("\n", actionsText(s));
  return text;
}

std::string scheduleJson(const Schedule& s, const Costs& c) {
  const Timeline timeline = timelineOf(s, c);
  Json ranks = Json::array();
  for (int rank = 0; rank < s.ranks; ++rank) ranks.push_back(rankOf(s, timeline, rank));
  const parallel::Fraction bubble = timeline.bubble();
  const Json json{{"schedule", s.name},
                  {"micro_batches", s.microBatches},
                  {"chunks", s.chunks},
                  {"costs",
                   {{"forward", c.forward},
                    {"input_gradients", c.inputGradients},
                    {"weight_gradients", c.weightGradients},
                    {"transfer", c.transfer}}},
                  {"step", timeline.length().value()},
                  {"idle_share", bubble.value()},
                  {"idle_fraction", {bubble.over, bubble.under}},
                  {"ranks", ranks}};
  return jsonLine(json);
}

}  // namespace tutti::tools
