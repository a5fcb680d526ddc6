// Schedules of pipelines: all are valid, idle exactly as long as the formulas of the literature
// say, hold as many activations, and are drawn.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "parallel/pipeline/builders.h"
#include "parallel/pipeline/schedule_text.h"
#include "parallel/pipeline/violations.h"

namespace tutti::parallel {
namespace {

constexpr ScheduleKind kAll[] = {ScheduleKind::Naive,        ScheduleKind::GPipe,
                                 ScheduleKind::OneFOneB,     ScheduleKind::Interleaved,
                                 ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV};

/// Forward, input gradients, weight gradients.
const std::vector<Costs> kCosts{{1, 1, 1}, {1, 2, 1}, {2, 3, 2}, {1, 2, 2}, {2, 1, 1},
                                {3, 4, 2}, {5, 6, 4}, {2, 2, 1}, {1, 1, 2}};

/// Calls visit(p, m) for a grid of ranks and micro-batches.
void forGrid(const std::function<void(int, int)>& visit) {
  for (const int p : {1, 2, 3, 4, 5, 8})
    for (const int m : {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 33}) {
      SCOPED_TRACE(testing::Message() << p << " ranks, " << m << " micro-batches");
      visit(p, m);
    }
}

Fraction bubbleOf(const ScheduleOptions& o) {
  return timelineOf(buildSchedule(o), o.costs).bubble();
}

TEST(Schedule, IsValidForAnyNumberOfRanksAndMicroBatches) {
  forGrid([](int p, int m) {
    for (const ScheduleKind kind : kAll)
      for (const int chunks : {0, 3, 4}) {
        if (chunks != 0 && kind != ScheduleKind::Interleaved) continue;
        const Schedule s =
            buildSchedule({.kind = kind, .ranks = p, .microBatches = m, .chunks = chunks});
        const auto found = violations(s);
        for (size_t i = 0; i < std::min<size_t>(found.size(), 3); ++i)
          ADD_FAILURE() << s.name << ": " << found[i].describe() << "\n" << actionsText(s);
      }
  });
}

TEST(Schedule, OfOneRankIsOneMicroBatchAfterTheOther) {
  const Schedule s = buildSchedule({.kind = ScheduleKind::OneFOneB, .ranks = 1, .microBatches = 2});
  using enum ActionKind;
  EXPECT_EQ(s.byRank,
            (std::vector<std::vector<Action>>{{{F, 0, 0}, {B, 0, 0}, {F, 0, 1}, {B, 0, 1}}}));
  for (const ScheduleKind kind : kAll)
    EXPECT_EQ(bubbleOf({.kind = kind, .ranks = 1, .microBatches = 5}), Fraction())
        << toString(kind);
}

TEST(Schedule, Naive) {
  forGrid([](int p, int m) {
    for (const Costs& costs : kCosts)
      EXPECT_EQ(
          bubbleOf({.kind = ScheduleKind::Naive, .ranks = p, .microBatches = m, .costs = costs}),
          Fraction(p - 1, p));
  });
}

TEST(Schedule, NaiveWaitsForEachTransfer) {
  forGrid([](int p, int m) {
    const ScheduleOptions o{
        .kind = ScheduleKind::Naive, .ranks = p, .microBatches = m, .costs = {2, 3, 1, 5}};
    EXPECT_EQ(timelineOf(buildSchedule(o), o.costs).length(),
              Fraction(m * (p * (2 + 3 + 1) + 2 * (p - 1) * 5), 1));
  });
}

TEST(Schedule, GPipeAndOneFOneB) {
  forGrid([](int p, int m) {
    for (const ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB})
      for (const Costs& costs : kCosts)
        EXPECT_EQ(bubbleOf({.kind = kind, .ranks = p, .microBatches = m, .costs = costs}),
                  Fraction(p - 1, m + p - 1))
            << toString(kind);
  });
}

TEST(Schedule, Interleaved) {
  forGrid([](int p, int m) {
    for (const int v : {2, 3, 4})
      for (const Costs& costs : kCosts) {
        const Fraction bubble = bubbleOf({.kind = ScheduleKind::Interleaved,
                                          .ranks = p,
                                          .microBatches = m,
                                          .chunks = v,
                                          .costs = costs});
        if (m >= p) {
          EXPECT_EQ(bubble, Fraction(p - 1, v * m + p - 1)) << v;
        } else {  // a round is too short to fill the ranks
          EXPECT_GE(bubble, Fraction(p - 1, v * m + p - 1)) << v;
        }
      }
  });
}

TEST(Schedule, ZeroBubbleH1) {
  forGrid([](int p, int m) {
    if (m < p) return;
    for (const Costs& c : kCosts) {
      const int64_t all = c.forward + c.inputGradients + c.weightGradients;
      // The first rank cannot begin its first B before p F and p-1 B, whatever W is.
      const int64_t saved = std::min(c.forward, c.weightGradients);
      const int64_t idle = (p - 1) * (c.forward + c.inputGradients - saved);
      EXPECT_EQ(
          bubbleOf({.kind = ScheduleKind::ZeroBubbleH1, .ranks = p, .microBatches = m, .costs = c}),
          Fraction(idle, m * all + idle))
          << c.forward << c.inputGradients << c.weightGradients;
    }
  });
}

TEST(Schedule, ZeroBubbleVIdlesNowhereInBetween) {
  forGrid([](int p, int m) {
    const ScheduleOptions o{.kind = ScheduleKind::ZeroBubbleV, .ranks = p, .microBatches = m};
    const Timeline timeline = timelineOf(buildSchedule(o), o.costs);
    if (m < 2 * p - 1) return;
    for (int rank = 0; rank < p; ++rank) EXPECT_EQ(timeline.idleWithin(rank), Fraction());
  });
}

TEST(Schedule, ZeroBubbleVNeverIdlesLongerThanH1) {
  forGrid([](int p, int m) {
    for (const Costs& costs : kCosts) {
      const auto lengthOf = [&](ScheduleKind kind) {
        return timelineOf(
                   buildSchedule({.kind = kind, .ranks = p, .microBatches = m, .costs = costs}),
                   costs)
            .length();
      };
      EXPECT_LE(lengthOf(ScheduleKind::ZeroBubbleV), lengthOf(ScheduleKind::ZeroBubbleH1));
    }
  });
}

TEST(Schedule, HoldsAsManyActivationsAsItSays) {
  forGrid([](int p, int m) {
    const auto mostOf = [&](const ScheduleOptions& o) {
      const Schedule s = buildSchedule(o);
      int most = 0;
      for (int rank = 0; rank < p; ++rank) most = std::max(most, s.slots(rank));
      return most;
    };
    EXPECT_EQ(mostOf({.kind = ScheduleKind::Naive, .ranks = p, .microBatches = m}), 1);
    EXPECT_EQ(mostOf({.kind = ScheduleKind::GPipe, .ranks = p, .microBatches = m}), m);
    EXPECT_EQ(mostOf({.kind = ScheduleKind::OneFOneB, .ranks = p, .microBatches = m}),
              std::min(m, p));
    EXPECT_EQ(mostOf({.kind = ScheduleKind::ZeroBubbleH1, .ranks = p, .microBatches = m}),
              std::min(m, p));
    EXPECT_LE(mostOf({.kind = ScheduleKind::ZeroBubbleV, .ranks = p, .microBatches = m}),
              std::min(2 * m, 2 * p));
    if (m % p > 0) return;
    for (const int v : {2, 3})  // of 1/v of a rank's layers each: 1 + (p-1)/(p v) times 1F1B's p
      EXPECT_EQ(
          mostOf({.kind = ScheduleKind::Interleaved, .ranks = p, .microBatches = m, .chunks = v}),
          std::min(v * m, v * p + p - 1));
  });
}

}  // namespace
}  // namespace tutti::parallel
