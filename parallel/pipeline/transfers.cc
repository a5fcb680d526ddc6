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

/// What stands between two computations of a rank, and when these allow it to begin.
struct Group {
  int64_t opens = 0;
  std::vector<Action> sends, receives;
};

/// Those of a rank: one before each of its computations, and one behind the last.
std::vector<Group> groupsBetween(const std::vector<Span>& spans) {
  std::vector<Group> groups(1);
  for (const Span& span : spans) groups.push_back({.opens = span.end, .sends = {}, .receives = {}});
  return groups;
}

/// The last one that is open at `time`.
Group& groupAt(std::vector<Group>& groups, int64_t time) {
  const auto later = [](int64_t t, const Group& group) { return t < group.opens; };
  return *(std::upper_bound(groups.begin(), groups.end(), time, later) - 1);
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

}  // namespace

void setActions(Schedule& schedule, const Orders& orders, const Costs& costs) {
  schedule.byRank = orders;
  const Timeline timeline = timelineOf(schedule, costs);
  std::vector<std::vector<Group>> groups;
  for (const auto& spans : timeline.byRank) groups.push_back(groupsBetween(spans));
  for (const Sent& sent : messagesOf(schedule, timeline)) {
    const int peer = transferOf(schedule, sent.rank, sent.send).peer;
    groupAt(groups[static_cast<size_t>(sent.rank)], sent.time).sends.push_back(sent.send);
    groupAt(groups[static_cast<size_t>(peer)], sent.time)
        .receives.push_back(receiverOf(schedule, sent.rank, sent.send));
  }
  for (size_t rank = 0; rank < orders.size(); ++rank) {
    auto& actions = schedule.byRank[rank];
    actions.clear();
    for (size_t i = 0; const Group& group : groups[rank]) {
      actions.insert(actions.end(), group.sends.begin(), group.sends.end());
      actions.insert(actions.end(), group.receives.begin(), group.receives.end());
      if (i < orders[rank].size()) actions.push_back(orders[rank][i++]);
    }
    setSlots(schedule, actions);
  }
}

}  // namespace tutti::parallel
