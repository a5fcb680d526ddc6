#include <algorithm>

#include "parallel/pipeline/orders.h"
#include "parallel/pipeline/timeline.h"

namespace tutti::parallel {

namespace {

bool hasPrevious(const Schedule& s, int rank, int chunk, bool forward) {
  const int stage = s.stage(rank, chunk);
  return forward ? stage > 0 : stage + 1 < s.stages();
}

/// Whether another rank needs what a computation makes.
bool needsSend(const Schedule& s, int rank, const Action& a) {
  if (a.kind == ActionKind::W) return false;
  const bool forward = a.kind == ActionKind::F;
  if (!hasPrevious(s, rank, a.chunk, !forward)) return false;
  return s.rankOf(s.stage(rank, a.chunk) + (forward ? 1 : -1)) != rank;
}

Action sendOf(Action a) {
  a.kind = a.kind == ActionKind::F ? ActionKind::SendF : ActionKind::SendB;
  return a;
}

/// The receive of what `rank` sends, for the rank that it goes to.
Action receiverOf(const Schedule& s, int rank, const Action& send) {
  const bool forward = send.kind == ActionKind::SendF;
  const int stage = s.stage(rank, send.chunk) + (forward ? 1 : -1);
  return {forward ? ActionKind::RecvF : ActionKind::RecvB, s.chunkOf(stage), send.microBatch};
}

struct StageMessage {
  int64_t made = 0;
  Action receive;
};

/// What stands between two computations of a rank, and when these allow it to begin; messages in
/// the order in which they are made.
struct Gap {
  int64_t opens = 0;
  std::vector<Action> sends;
  std::vector<StageMessage> messages;
};

/// Those of a rank: one before each of its computations, and one behind the last.
std::vector<Gap> gapsBetween(const std::vector<Span>& spans) {
  std::vector<Gap> gaps(1);
  for (const Span& span : spans) gaps.push_back({.opens = span.end, .sends = {}, .messages = {}});
  return gaps;
}

/// The last one that is open at `time`.
Gap& gapAt(std::vector<Gap>& gaps, int64_t time) {
  const auto later = [](int64_t t, const Gap& gap) { return t < gap.opens; };
  return *(std::upper_bound(gaps.begin(), gaps.end(), time, later) - 1);
}

struct Sent {
  int64_t time;
  int rank;
  Action send;
};

/// In the order of their times.
std::vector<Sent> messagesOf(const Schedule& s, const Timeline& timeline) {
  std::vector<Sent> all;
  for (int rank = 0; rank < s.ranks; ++rank)
    for (const Span& span : timeline.byRank[static_cast<size_t>(rank)])
      if (needsSend(s, rank, span.action)) all.push_back({span.end, rank, sendOf(span.action)});
  std::stable_sort(all.begin(), all.end(),
                   [](const Sent& a, const Sent& b) { return a.time < b.time; });
  return all;
}

/// The lowest one that is free, from F to the last computation.
void setSlots(const Schedule& s, std::vector<Action>& actions) {
  std::vector<std::vector<int>> slotOf(static_cast<size_t>(s.chunks));
  for (auto& slots : slotOf) slots.assign(static_cast<size_t>(s.microBatches), -1);
  std::vector<bool> taken;
  for (Action& a : actions) {
    if (!a.computes()) continue;
    int& slot = slotOf[static_cast<size_t>(a.chunk)][static_cast<size_t>(a.microBatch)];
    if (slot < 0) {
      slot = static_cast<int>(std::find(taken.begin(), taken.end(), false) - taken.begin());
      if (static_cast<size_t>(slot) == taken.size()) taken.push_back(false);
      taken[static_cast<size_t>(slot)] = true;
    }
    a.slot = slot;
    if (a.kind == s.last()) taken[static_cast<size_t>(slot)] = false;
  }
}

bool reads(const Action& computation, const Action& receive) {
  const bool forward = receive.kind == ActionKind::RecvF;
  return computation.kind == (forward ? ActionKind::F : ActionKind::B) &&
         computation.chunk == receive.chunk && computation.microBatch == receive.microBatch;
}

/// One group for what is sent, made at the same time or needed by the next computation, and one for
/// what is made while it runs. Two ranks that send to each other at the same time have to be in
/// their first.
void append(const Gap& gap, const Action* next, std::vector<Action>& actions) {
  int64_t awaited = gap.opens;
  for (const auto& [made, receive] : gap.messages)
    if (next != nullptr && reads(*next, receive)) awaited = made;
  actions.insert(actions.end(), gap.sends.begin(), gap.sends.end());
  bool first = gap.sends.empty(), later = false;
  for (const auto& [made, receive] : gap.messages) {
    actions.push_back(receive);
    actions.back().apart = !first && !later && made > awaited;
    later = later || made > awaited;
    first = false;
  }
}

}  // namespace

void setActions(Schedule& schedule, const Orders& orders, const Costs& costs) {
  schedule.byRank = orders;
  const Timeline timeline = timelineOf(schedule, costs);
  std::vector<std::vector<Gap>> gaps;
  for (const auto& spans : timeline.byRank) gaps.push_back(gapsBetween(spans));
  for (const Sent& sent : messagesOf(schedule, timeline)) {
    const int peer = transferOf(schedule, sent.rank, sent.send).peer;
    gapAt(gaps[static_cast<size_t>(sent.rank)], sent.time).sends.push_back(sent.send);
    gapAt(gaps[static_cast<size_t>(peer)], sent.time)
        .messages.push_back({sent.time, receiverOf(schedule, sent.rank, sent.send)});
  }
  for (size_t rank = 0; rank < orders.size(); ++rank) {
    auto& actions = schedule.byRank[rank];
    actions.clear();
    for (size_t i = 0; const Gap& gap : gaps[rank]) {
      const bool more = i < orders[rank].size();
      append(gap, more ? &orders[rank][i] : nullptr, actions);
      if (more) actions.push_back(orders[rank][i++]);
    }
    setSlots(schedule, actions);
  }
}

}  // namespace tutti::parallel
