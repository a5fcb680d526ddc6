#include "parallel/pipeline/timeline.h"

#include <algorithm>

namespace tutti::parallel {

namespace {

/// When what stages made is there.
class TimelineClock {
 public:
  TimelineClock(const Schedule& s, const Costs& costs)
      : s_(s),
        costs_(costs),
        ends_(2 * static_cast<size_t>(s.stages()) * static_cast<size_t>(s.microBatches), -1) {}

  /// When a computation may begin as far as others are concerned; -1: that is not known yet.
  int64_t ready(int rank, const Action& a) {
    const int stage = s_.stage(rank, a.chunk);
    if (a.kind == ActionKind::W) return end(ActionKind::B, stage, a.microBatch);
    const bool forward = a.kind == ActionKind::F;
    if (!forward && end(ActionKind::F, stage, a.microBatch) < 0) return -1;
    const int before = stage + (forward ? -1 : 1);
    if (before < 0 || before == s_.stages()) return 0;
    const int64_t made = end(a.kind, before, a.microBatch);
    return made < 0 || s_.rankOf(before) == rank ? made : made + s_.chunks * costs_.transfer;
  }

  int64_t cost(ActionKind kind) const {
    switch (kind) {
      case ActionKind::F: return costs_.forward;
      case ActionKind::B:
        return costs_.inputGradients + (s_.splitsBackward ? 0 : costs_.weightGradients);
      case ActionKind::W: return costs_.weightGradients;
      default: return 0;
    }
  }

  int64_t& end(ActionKind kind, int stage, int microBatch) {
    const int line = stage + (kind == ActionKind::F ? 0 : s_.stages());
    return ends_[static_cast<size_t>(line) * static_cast<size_t>(s_.microBatches) +
                 static_cast<size_t>(microBatch)];
  }

 private:
  const Schedule& s_;
  const Costs& costs_;
  std::vector<int64_t> ends_;  // of F and of B
};

}  // namespace

Timeline timelineOf(const Schedule& s, const Costs& costs) {
  check(costs);
  TimelineClock clock(s, costs);
  Timeline timeline{.chunks = s.chunks, .byRank = {}};
  timeline.byRank.resize(static_cast<size_t>(s.ranks));
  std::vector<size_t> next(static_cast<size_t>(s.ranks));
  const auto advance = [&](int rank) {
    const auto& actions = s.byRank[static_cast<size_t>(rank)];
    auto& spans = timeline.byRank[static_cast<size_t>(rank)];
    size_t& at = next[static_cast<size_t>(rank)];
    const size_t from = at;
    for (; at < actions.size(); ++at) {
      const Action& a = actions[at];
      if (!a.computes()) continue;
      const int64_t ready = clock.ready(rank, a);
      if (ready < 0) break;
      const int64_t begin = std::max(ready, spans.empty() ? 0 : spans.back().end);
      spans.push_back({a, begin, begin + clock.cost(a.kind)});
      if (a.kind != ActionKind::W)
        clock.end(a.kind, s.stage(rank, a.chunk), a.microBatch) = spans.back().end;
    }
    return at > from;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < s.ranks; ++rank) moved = advance(rank) || moved;
    for (int rank = s.ranks - 1; rank >= 0; --rank) moved = advance(rank) || moved;
  }
  for (int rank = 0; rank < s.ranks; ++rank)
    if (const size_t at = next[static_cast<size_t>(rank)];
        at < s.byRank[static_cast<size_t>(rank)].size())
      fail(ErrorCode::InvalidArgument, "rank ", rank, " can never begin action ", at, ", ",
           s.byRank[static_cast<size_t>(rank)][at]);
  return timeline;
}

int64_t Timeline::end() const {
  int64_t last = 0;
  for (const auto& spans : byRank)
    if (!spans.empty()) last = std::max(last, spans.back().end);
  return last;
}

int64_t Timeline::busy(int rank) const {
  int64_t sum = 0;
  for (const Span& span : byRank[static_cast<size_t>(rank)]) sum += span.end - span.begin;
  return sum;
}

Fraction Timeline::bubble() const {
  int64_t idle = 0;
  for (int rank = 0; rank < static_cast<int>(byRank.size()); ++rank) idle += end() - busy(rank);
  return {idle, end() * static_cast<int64_t>(byRank.size())};
}

Fraction Timeline::bubble(int rank) const { return {end() - busy(rank), end()}; }

Fraction Timeline::idleWithin(int rank) const {
  const auto& spans = byRank[static_cast<size_t>(rank)];
  return {spans.empty() ? 0 : spans.back().end - spans.front().begin - busy(rank), chunks};
}

Fraction Timeline::mostIdleWithin() const {
  Fraction most;
  for (int rank = 0; rank < static_cast<int>(byRank.size()); ++rank)
    most = std::max(most, idleWithin(rank));
  return most;
}

}  // namespace tutti::parallel
