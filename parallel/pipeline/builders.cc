#include "parallel/pipeline/builders.h"

#include <algorithm>
#include <array>

#include "parallel/pipeline/orders.h"

namespace tutti::parallel {

namespace {

constexpr int kMostRanks = 1024, kMostMicroBatches = 65536, kMostChunks = 64;

struct KindFacts {
  ScheduleKind kind;
  const char* name;
  int leastChunks, mostChunks;
};
constexpr std::array kKinds{KindFacts{ScheduleKind::Naive, "naive", 1, 1},
                            KindFacts{ScheduleKind::GPipe, "gpipe", 1, 1},
                            KindFacts{ScheduleKind::OneFOneB, "1f1b", 1, 1},
                            KindFacts{ScheduleKind::Interleaved, "interleaved", 2, kMostChunks},
                            KindFacts{ScheduleKind::ZeroBubbleH1, "zb-h1", 1, 1},
                            KindFacts{ScheduleKind::ZeroBubbleV, "zb-v", 2, 2}};

const KindFacts& factsOf(ScheduleKind kind) { return kKinds[static_cast<size_t>(kind)]; }

int chunksOf(const ScheduleOptions& o) {
  const KindFacts& facts = factsOf(o.kind);
  if (o.chunks == 0) return facts.leastChunks;
  if (facts.leastChunks == facts.mostChunks)
    require(o.chunks == facts.leastChunks, "schedule ", facts.name, " has ", facts.leastChunks,
            facts.leastChunks == 1 ? " chunk" : " chunks", " a rank, not ", o.chunks);
  require(o.chunks >= facts.leastChunks && o.chunks <= facts.mostChunks, "schedule ", facts.name,
          " has ", facts.leastChunks, " to ", facts.mostChunks, " chunks a rank, not ", o.chunks);
  return o.chunks;
}

/// One micro-batch after the other goes through all stages and back.
std::vector<Action> naive(int m) {
  std::vector<Action> order;
  for (int k = 0; k < m; ++k) {
    order.push_back({ActionKind::F, 0, k});
    order.push_back({ActionKind::B, 0, k});
  }
  return order;
}

/// All forwards, then all backwards.
std::vector<Action> gpipe(int m) {
  std::vector<Action> order;
  for (int k = 0; k < m; ++k) order.push_back({ActionKind::F, 0, k});
  for (int k = 0; k < m; ++k) order.push_back({ActionKind::B, 0, k});
  return order;
}

/// Micro-batches go through the chunks in rounds: all of a round through one chunk, then through
/// the next. A round has at least as many as there are ranks, or ranks would wait for each other;
/// rounds are as even as they can be.
std::vector<int> roundsOf(const Schedule& s) {
  const int rounds = std::max(1, s.microBatches / s.ranks);
  std::vector<int> widths(static_cast<size_t>(rounds), s.microBatches / rounds);
  for (int i = 0; i < s.microBatches % rounds; ++i) ++widths[static_cast<size_t>(i)];
  return widths;
}

/// All forwards, or all backwards, which take the chunks the other way, in the order of rounds.
std::vector<Action> inRounds(const Schedule& s, ActionKind kind) {
  std::vector<Action> order;
  int first = 0;
  for (const int width : roundsOf(s)) {
    for (int chunk = 0; chunk < s.chunks; ++chunk)
      for (int m = first; m < first + width; ++m)
        order.push_back({kind, kind == ActionKind::F ? chunk : s.chunks - 1 - chunk, m});
    first += width;
  }
  return order;
}

/// Some forwards, then forwards and backwards in turn, then the backwards that are left.
std::vector<Action> alternating(const Schedule& s, int forwardsFirst) {
  const std::vector<Action> forwards = inRounds(s, ActionKind::F);
  auto next = forwards.begin() + std::min(forwardsFirst, s.microBatches * s.chunks);
  std::vector<Action> order(forwards.begin(), next);
  for (const Action& backward : inRounds(s, ActionKind::B)) {
    if (next != forwards.end()) order.push_back(*next++);
    order.push_back(backward);
  }
  return order;
}

/// 1F1B whose weight gradients on rank r come r micro-batches later, so that all ranks hold equally
/// many activations and the last rank's input gradients come sooner.
std::vector<Action> zeroBubbleH1(const Schedule& s, int rank) {
  const int m = s.microBatches, first = std::min(s.ranks - 1 - rank, m);
  std::vector<Action> order;
  for (int k = 0; k < first; ++k) order.push_back({ActionKind::F, 0, k});
  for (int k = 0; k < m; ++k) {
    if (first + k < m) order.push_back({ActionKind::F, 0, first + k});
    order.push_back({ActionKind::B, 0, k});
    if (k >= rank) order.push_back({ActionKind::W, 0, k - rank});
  }
  for (int k = std::max(0, m - rank); k < m; ++k) order.push_back({ActionKind::W, 0, k});
  return order;
}

std::vector<Action> orderOf(const Schedule& s, ScheduleKind kind, int rank) {
  const int behind = s.ranks - 1 - rank;
  switch (kind) {
    case ScheduleKind::Naive: return naive(s.microBatches);
    case ScheduleKind::GPipe: return gpipe(s.microBatches);
    case ScheduleKind::OneFOneB: return alternating(s, behind);
    case ScheduleKind::Interleaved:
      return alternating(s, 2 * behind + (s.chunks - 1) * roundsOf(s)[0]);
    case ScheduleKind::ZeroBubbleH1: return zeroBubbleH1(s, rank);
    case ScheduleKind::ZeroBubbleV: break;
  }
  fail(ErrorCode::Internal, "schedule ", toString(kind), " is not built rank by rank");
}

void checkOptions(const ScheduleOptions& o) {
  require(o.ranks >= 1 && o.ranks <= kMostRanks, "a pipeline has 1 to ", kMostRanks, " ranks, not ",
          o.ranks);
  require(o.microBatches >= 1 && o.microBatches <= kMostMicroBatches, "a step has 1 to ",
          kMostMicroBatches, " micro-batches, not ", o.microBatches);
  check(o.costs);
  if (o.mostActivations == 0) return;
  require(o.kind == ScheduleKind::ZeroBubbleV, "schedule ", toString(o.kind),
          " holds what it holds: only that of zb-v can be limited");
  require(o.mostActivations >= 2 && o.mostActivations <= 2 * o.ranks, "a rank of zb-v on ", o.ranks,
          " ranks may hold 2 to ", 2 * o.ranks, " activations of chunks, not ", o.mostActivations);
}

}  // namespace

const char* toString(ScheduleKind kind) { return factsOf(kind).name; }

std::optional<ScheduleKind> parseScheduleKind(const std::string& name) {
  for (const KindFacts& facts : kKinds)
    if (name == facts.name) return facts.kind;
  return {};
}

std::vector<std::string> scheduleWords() {
  std::vector<std::string> words;
  for (const KindFacts& facts : kKinds) words.emplace_back(facts.name);
  return words;
}

std::string scheduleNames() {
  std::string names;
  for (const std::string& word : scheduleWords()) names += (names.empty() ? "" : ", ") + word;
  return names;
}

void check(const Costs& costs) {
  constexpr int64_t kMost = 1'000'000;
  for (const int64_t cost : {costs.forward, costs.inputGradients, costs.weightGradients})
    require(cost >= 1 && cost <= kMost, "a computation costs 1 to ", kMost, ", not ", cost);
  require(costs.transfer >= 0 && costs.transfer <= kMost, "a transfer costs 0 to ", kMost, ", not ",
          costs.transfer);
}

Schedule buildSchedule(const ScheduleOptions& o) {
  checkOptions(o);
  const bool vShaped = o.kind == ScheduleKind::ZeroBubbleV;
  Schedule s{.name = toString(o.kind),
             .ranks = o.ranks,
             .chunks = chunksOf(o),
             .microBatches = o.microBatches,
             .placement = vShaped ? StagePlacement::V : StagePlacement::InOrder,
             .splitsBackward = vShaped || o.kind == ScheduleKind::ZeroBubbleH1};
  Orders orders;
  if (vShaped) {
    orders = vShapedOrders(s, o);
  } else {
    for (int rank = 0; rank < s.ranks; ++rank) orders.push_back(orderOf(s, o.kind, rank));
  }
  setActions(s, orders, o.costs);
  return s;
}

}  // namespace tutti::parallel
