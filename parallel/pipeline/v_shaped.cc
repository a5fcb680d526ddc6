// The orders of ZB-V. That of the paper, rank by rank, for F = B = W:
//
//   rank r of p    2 (p-r) - 1 forwards of chunk 0;
//                  r times a forward of chunk 1 and one of chunk 0;
//                  p-r times forward, input gradients and weight gradients of chunk 1;
//                  F B W of chunk 0 and F B W of chunk 1 in turn, until all forwards are done;
//                  r times input gradients of both chunks, then p-r times input and weight
//                  gradients of chunk 0, then the weight gradients that are left.
//
// For other costs, few micro-batches or less memory a walk in time is often better: each rank
// always takes what it can begin first. What is returned is the fastest of these in virtual time.

#include <algorithm>
#include <array>
#include <optional>

#include "parallel/pipeline/orders.h"
#include "parallel/pipeline/timeline.h"

namespace tutti::parallel {

namespace {

/// Appends actions, each kind of each chunk in the order of micro-batches.
class VShapedWriter {
 public:
  explicit VShapedWriter(int microBatches) : microBatches_(microBatches) {}

  int count(ActionKind kind, int chunk) const { return counts_[place(kind, chunk)]; }
  /// The next one; those of micro-batches that are not there are counted, and left out.
  void write(ActionKind kind, int chunk) {
    const int m = counts_[place(kind, chunk)]++;
    if (m < microBatches_) order_.push_back({kind, chunk, m});
  }
  void backward(int chunk) {
    write(ActionKind::B, chunk);
    write(ActionKind::W, chunk);
  }
  std::vector<Action> take() && { return std::move(order_); }

 private:
  static size_t place(ActionKind kind, int chunk) {
    return 2 * static_cast<size_t>(kind) + static_cast<size_t>(chunk);
  }
  const int microBatches_;
  std::array<int, 6> counts_{};
  std::vector<Action> order_;
};

/// The paper's, made for at least 2p-1 micro-batches.
std::vector<Action> orderOfPaper(int p, int rank, int microBatches) {
  using enum ActionKind;
  const int m = std::max(2 * p - 1, microBatches);
  VShapedWriter w(microBatches);
  for (int i = 0; i < 2 * (p - rank) - 1; ++i) w.write(F, 0);
  for (int i = 0; i < rank; ++i) w.write(F, 1), w.write(F, 0);
  for (int i = 0; i < p - rank; ++i) w.write(F, 1), w.backward(1);
  while (w.count(F, 1) < m) {
    if (w.count(F, 0) < m) w.write(F, 0);
    w.backward(0);
    w.write(F, 1);
    w.backward(1);
  }
  for (int i = 0; i < rank; ++i) w.write(B, 0), w.write(B, 1);
  for (int i = 0; i < p - rank; ++i) w.backward(0);
  for (const int chunk : {1, 0})
    while (w.count(W, chunk) < m) w.write(W, chunk);
  return std::move(w).take();
}

/// Which kind comes first where two can begin at the same time.
using Priority = std::array<ActionKind, 3>;

/// Each rank takes what it can begin first; at the same time, by priority, the later chunk first.
class VShapedWalk {
 public:
  VShapedWalk(const Schedule& s, const Costs& costs, int mostActivations, const Priority& priority)
      : s_(s),
        costs_(costs),
        most_(mostActivations),
        priority_(priority),
        ranks_(static_cast<size_t>(s.ranks), Rank{.writer = VShapedWriter(s.microBatches)}) {
    for (auto& ends : ends_)
      ends.assign(static_cast<size_t>(s.stages()) * static_cast<size_t>(s.microBatches), -1);
  }

  Orders run() {
    for (int left = 3 * s_.stages() * s_.microBatches; left > 0; --left) {
      std::optional<Step> best;
      for (int rank = 0; rank < s_.ranks; ++rank)
        if (const auto step = nextOf(rank); step && (!best || step->begin < best->begin))
          best = step;
      ensure(best.has_value(), "a walk through ", s_.name, " on ", s_.ranks, " ranks is stuck");
      perform(*best);
    }
    Orders orders;
    for (Rank& rank : ranks_) orders.push_back(std::move(rank.writer).take());
    return orders;
  }

 private:
  struct Rank {
    VShapedWriter writer;
    int64_t free = 0;
    int held = 0;
  };
  struct Step {
    int rank, chunk;
    ActionKind kind;
    int64_t begin;
  };

  Rank& state(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  int64_t& end(ActionKind kind, int stage, int microBatch) {
    return ends_[static_cast<size_t>(kind)]
                [static_cast<size_t>(stage) * static_cast<size_t>(s_.microBatches) +
                 static_cast<size_t>(microBatch)];
  }

  /// When the stage `before` had done its part and the rank can read it; -1: not yet.
  int64_t arrival(int rank, ActionKind kind, int before, int microBatch) {
    if (before < 0 || before == s_.stages()) return 0;
    const int64_t made = end(kind, before, microBatch);
    return made < 0 || s_.rankOf(before) == rank ? made : made + s_.chunks * costs_.transfer;
  }

  /// When the rank could begin its next action of the kind; -1: not yet, or there is none.
  int64_t ready(int rank, ActionKind kind, int chunk) {
    Rank& r = state(rank);
    const int m = r.writer.count(kind, chunk), stage = s_.stage(rank, chunk);
    if (m == s_.microBatches) return -1;
    switch (kind) {
      case ActionKind::F:  // room for one of chunk 1 stays, or nobody might go on
        return r.held + (chunk == 0 ? 1 : 0) < most_ ? arrival(rank, kind, stage - 1, m) : -1;
      case ActionKind::B:
        return end(ActionKind::F, stage, m) < 0 ? -1 : arrival(rank, kind, stage + 1, m);
      default: return end(ActionKind::B, stage, m);
    }
  }

  std::optional<Step> nextOf(int rank) {
    std::optional<Step> best;
    for (const ActionKind kind : priority_)
      for (const int chunk : {1, 0}) {
        const int64_t at = ready(rank, kind, chunk);
        if (at < 0) continue;
        const int64_t begin = std::max(at, state(rank).free);
        if (!best || begin < best->begin) best = Step{rank, chunk, kind, begin};
      }
    return best;
  }

  int64_t cost(ActionKind kind) const {
    return kind == ActionKind::F   ? costs_.forward
           : kind == ActionKind::B ? costs_.inputGradients
                                   : costs_.weightGradients;
  }

  void perform(const Step& step) {
    Rank& r = state(step.rank);
    r.free = step.begin + cost(step.kind);
    end(step.kind, s_.stage(step.rank, step.chunk), r.writer.count(step.kind, step.chunk)) = r.free;
    r.writer.write(step.kind, step.chunk);
    r.held += step.kind == ActionKind::F ? 1 : step.kind == ActionKind::W ? -1 : 0;
  }

  const Schedule& s_;
  const Costs& costs_;
  const int most_;
  const Priority& priority_;
  std::vector<Rank> ranks_;
  std::array<std::vector<int64_t>, 3> ends_;
};

/// By how long the step takes, then by what ranks idle in between.
std::pair<Fraction, Fraction> worth(Schedule s, const Orders& orders, const Costs& costs) {
  s.byRank = orders;
  const Timeline timeline = timelineOf(s, costs);
  return {timeline.length(), timeline.mostIdleWithin()};
}

}  // namespace

Orders vShapedOrders(const Schedule& s, const ScheduleOptions& o) {
  using enum ActionKind;
  static constexpr std::array kPriorities{Priority{B, F, W}, Priority{F, B, W}, Priority{B, W, F}};
  const int most = o.mostActivations == 0 ? 2 * s.ranks : o.mostActivations;
  std::vector<Orders> candidates;
  if (most == 2 * s.ranks) {
    Orders& orders = candidates.emplace_back();
    for (int rank = 0; rank < s.ranks; ++rank)
      orders.push_back(orderOfPaper(s.ranks, rank, s.microBatches));
  }
  for (const Priority& priority : kPriorities)
    candidates.push_back(VShapedWalk(s, o.costs, most, priority).run());
  return *std::min_element(candidates.begin(), candidates.end(),
                           [&](const Orders& a, const Orders& b) {
                             return worth(s, a, o.costs) < worth(s, b, o.costs);
                           });
}

}  // namespace tutti::parallel
