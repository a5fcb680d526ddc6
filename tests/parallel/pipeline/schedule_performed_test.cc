// Schedules as a rank performs them, in virtual time: groups of transfers one after the other,
// nothing buffered, computations that wait for the whole group of what they read. All begins when
// the schedule's timeline says, so that ranks idle no longer than it says.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <tuple>

#include "parallel/pipeline/builders.h"
#include "parallel/pipeline/timeline.h"

namespace tutti::parallel {
namespace {

/// Performs a schedule whose computations take as long as a timeline's.
class Performance {
 public:
  Performance(const Schedule& s, const Timeline& timeline)
      : s_(s), timeline_(timeline), ranks_(static_cast<size_t>(s.ranks)) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < s.ranks; ++rank) moved = transfer(rank) | go(rank) | moved;
    }
  }

  /// When the computations of a rank began; as many as could.
  const std::vector<int64_t>& begins(int rank) const {
    return ranks_[static_cast<size_t>(rank)].begins;
  }

 private:
  struct Group {
    std::span<const Action> actions;
    int64_t posted = 0;
  };
  struct Rank {
    size_t at = 0;
    int64_t time = 0, transferred = 0;  // until when it computes, and until when it transfers
    std::deque<Group> groups;           // the first is under way
    std::vector<int64_t> begins;
  };
  using Message = std::tuple<bool, int, int>;  // an output, the stage that made it, micro-batch
  struct Ends {
    int64_t sender = -1, receiver = -1;  // when their groups begin
    bool met() const { return sender >= 0 && receiver >= 0; }
  };

  Message messageOf(int rank, const Action& a) const {
    const bool output = a.kind == ActionKind::SendF || a.kind == ActionKind::RecvF;
    return {output, transferOf(s_, rank, a).producer, a.microBatch};
  }

  bool transfer(int rank) {
    Rank& r = ranks_[static_cast<size_t>(rank)];
    bool moved = false;
    for (bool over = true; over && !r.groups.empty(); moved = moved || over) {
      const Group group = r.groups.front();
      int64_t end = std::max(group.posted, r.transferred);
      for (const Action& a : group.actions) {
        Ends& ends = ends_[messageOf(rank, a)];
        int64_t& own = a.sends() ? ends.sender : ends.receiver;
        moved = moved || own < 0;
        if (own < 0) own = std::max(group.posted, r.transferred);
      }
      for (const Action& a : group.actions) {
        const Ends& ends = ends_[messageOf(rank, a)];
        over = over && ends.met();
        end = std::max({end, ends.sender, ends.receiver});
      }
      if (!over) break;
      for (const Action& a : group.actions)
        if (a.receives()) arrivals_[messageOf(rank, a)] = end;
      r.transferred = end;
      r.groups.pop_front();
    }
    return moved;
  }

  bool go(int rank) {
    Rank& r = ranks_[static_cast<size_t>(rank)];
    const auto& actions = s_.byRank[static_cast<size_t>(rank)];
    const auto& spans = timeline_.byRank[static_cast<size_t>(rank)];
    const size_t from = r.at;
    for (; r.at < actions.size(); ++r.at) {
      const auto rest = std::span(actions).subspan(r.at);
      if (const size_t together = groupSize(rest); together > 0) {
        r.groups.push_back({rest.first(together), r.time});
        r.at += together - 1;
        continue;
      }
      const int64_t there = arrival(rank, rest[0]);
      if (there < 0) break;
      const Span& span = spans[r.begins.size()];
      r.begins.push_back(std::max(r.time, there));
      r.time = r.begins.back() + span.end - span.begin;
    }
    return r.at > from;
  }

  /// When what a computation reads is there; -1: that is not known yet.
  int64_t arrival(int rank, const Action& a) const {
    if (a.kind == ActionKind::W) return 0;
    const bool forward = a.kind == ActionKind::F;
    const int before = s_.stage(rank, a.chunk) + (forward ? -1 : 1);
    if (before < 0 || before == s_.stages() || s_.rankOf(before) == rank) return 0;
    const auto found = arrivals_.find({forward, before, a.microBatch});
    return found == arrivals_.end() ? -1 : found->second;
  }

  const Schedule& s_;
  const Timeline& timeline_;
  std::vector<Rank> ranks_;
  std::map<Message, Ends> ends_;
  std::map<Message, int64_t> arrivals_;
};

void expectOnTime(const ScheduleOptions& o) {
  const Schedule s = buildSchedule(o);
  const Timeline timeline = timelineOf(s, o.costs);
  const Performance performance(s, timeline);
  for (int rank = 0; rank < s.ranks; ++rank) {
    std::vector<int64_t> expected;
    for (const Span& span : timeline.byRank[static_cast<size_t>(rank)])
      expected.push_back(span.begin);
    ASSERT_EQ(performance.begins(rank), expected)
        << s.name << " with " << o.microBatches << " micro-batches on " << o.ranks << " ranks; F "
        << o.costs.forward << ", B " << o.costs.inputGradients << ", W " << o.costs.weightGradients
        << "; rank " << rank;
  }
}

/// Schedules that suit their order to costs.
constexpr ScheduleKind kKinds[] = {ScheduleKind::Naive,        ScheduleKind::GPipe,
                                   ScheduleKind::OneFOneB,     ScheduleKind::Interleaved,
                                   ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV};

TEST(PerformedSchedule, BeginsEachComputationOnTime) {
  for (const ScheduleKind kind : kKinds)
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const int microBatches : {1, 3, 8, 13})
        for (const Costs& costs : {Costs{4, 4, 4}, Costs{4, 8, 2}, Costs{8, 4, 4}, Costs{9, 4, 9}})
          expectOnTime(
              {.kind = kind, .ranks = ranks, .microBatches = microBatches, .costs = costs});
}

TEST(PerformedSchedule, WithAnyCosts) {
  std::mt19937 random(20);
  const auto upTo = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most)) + 1;
  };
  for (int trial = 0; trial < 400; ++trial)
    expectOnTime({.kind = kKinds[random() % std::size(kKinds)],
                  .ranks = upTo(6),
                  .microBatches = upTo(16),
                  .costs = {upTo(20), upTo(20), upTo(20)}});
}

}  // namespace
}  // namespace tutti::parallel
