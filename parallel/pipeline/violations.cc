#include "parallel/pipeline/violations.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace tutti::parallel {

namespace {

using Violations = std::vector<Violation>;

template <class... Parts>
void report(Violations& found, int rank, size_t index, const Parts&... parts) {
  found.push_back({rank, static_cast<int>(index), message(parts...)});
}

// ---- actions by themselves ----

void checkFields(const Schedule& s, Violations& found) {
  if (s.ranks < 1 || s.chunks < 1 || s.microBatches < 1 ||
      s.byRank.size() != static_cast<size_t>(s.ranks)) {
    report(found, 0, 0, "actions of ", s.byRank.size(), " ranks; there are ", s.ranks, " with ",
           s.chunks, " chunks and ", s.microBatches, " micro-batches");
    return;
  }
  for (int rank = 0; rank < s.ranks; ++rank)
    for (size_t i = 0; const Action& a : s.byRank[static_cast<size_t>(rank)]) {
      if (a.chunk < 0 || a.chunk >= s.chunks || a.microBatch < 0 ||
          a.microBatch >= s.microBatches || a.slot < 0 || a.slot >= s.chunks * s.microBatches)
        report(found, rank, i, a, " in slot ", a.slot, " is not one of ", s.chunks, " chunks and ",
               s.microBatches, " micro-batches");
      ++i;
    }
}

// ---- one rank ----

/// The life of one micro-batch in one chunk.
struct Life {
  bool done[7] = {};  // by kind of action
  int slot = -1;
};

class RankCheck {
 public:
  RankCheck(const Schedule& s, int rank, Violations& found)
      : s_(s),
        rank_(rank),
        actions_(s.byRank[static_cast<size_t>(rank)]),
        found_(found),
        lives_(static_cast<size_t>(s.chunks) * static_cast<size_t>(s.microBatches)),
        nextWeights_(static_cast<size_t>(s.chunks)) {}

  void run() {
    for (at_ = 0; at_ < actions_.size(); ++at_) check(actions_[at_]);
    for (int chunk = 0; chunk < s_.chunks; ++chunk)
      for (int m = 0; m < s_.microBatches; ++m)
        for (int kind = 0; kind < 7; ++kind) {
          const Action a{static_cast<ActionKind>(kind), chunk, m};
          if (belongs(a) && !done(a, a.kind)) say(a, " is missing");
        }
  }

 private:
  struct Holder {
    int chunk = 0, microBatch = -1;
    bool operator==(const Holder&) const = default;
  };

  template <class... Parts>
  void say(const Parts&... parts) {
    report(found_, rank_, at_, parts...);
  }
  Life& life(const Action& a) {
    return lives_[static_cast<size_t>(a.chunk) * static_cast<size_t>(s_.microBatches) +
                  static_cast<size_t>(a.microBatch)];
  }
  bool& done(const Action& a, ActionKind kind) { return life(a).done[static_cast<size_t>(kind)]; }

  /// Whether the stage has a neighbour before (-1) or behind it (1), on another rank.
  bool neighbour(const Action& a, int step, bool elsewhere) const {
    const int other = s_.stage(rank_, a.chunk) + step;
    return other >= 0 && other < s_.stages() && (s_.rankOf(other) != rank_) == elsewhere;
  }
  /// Whether such an action has to be there, once for each chunk and micro-batch.
  bool belongs(const Action& a) const {
    switch (a.kind) {
      case ActionKind::F:
      case ActionKind::B: return true;
      case ActionKind::W: return s_.splitsBackward;
      case ActionKind::RecvF:
      case ActionKind::SendB: return neighbour(a, -1, true);
      case ActionKind::SendF:
      case ActionKind::RecvB: return neighbour(a, 1, true);
    }
    return false;
  }

  void check(const Action& a) {
    if (!belongs(a)) return say(a, " has nothing to do here");
    if (done(a, a.kind)) return say(a, " comes again");
    checkOrder(a);
    checkSlot(a);
    if (a.kind == s_.last()) checkAscending(a);
    done(a, a.kind) = true;
  }

  void after(const Action& a, ActionKind kind) {
    if (!done(a, kind)) say(a, " comes before its ", toString(kind));
  }
  /// What a stage of this rank hands on to another one.
  void afterNeighbour(const Action& a, int step) {
    if (!neighbour(a, step, false)) return;
    const int other = s_.stage(rank_, a.chunk) + step;
    const Action made{a.kind, s_.chunkOf(other), a.microBatch};
    if (!done(made, a.kind)) say(a, " comes before ", made, ", whose result it reads");
  }

  void checkOrder(const Action& a) {
    switch (a.kind) {
      case ActionKind::F:
        if (neighbour(a, -1, true)) after(a, ActionKind::RecvF);
        return afterNeighbour(a, -1);
      case ActionKind::B:
        after(a, ActionKind::F);
        if (neighbour(a, 1, true)) after(a, ActionKind::RecvB);
        return afterNeighbour(a, 1);
      case ActionKind::W: return after(a, ActionKind::B);
      case ActionKind::SendF: return behind(a, ActionKind::F);
      case ActionKind::SendB: return behind(a, ActionKind::B);
      case ActionKind::RecvB: return after(a, ActionKind::F);
      case ActionKind::RecvF: return;
    }
  }

  /// A send's data lies where the next computation may write.
  void behind(const Action& a, ActionKind kind) {
    size_t i = at_;
    while (i > 0 && !actions_[i - 1].computes()) --i;
    if (i == 0 || actions_[i - 1].kind != kind || actions_[i - 1].chunk != a.chunk ||
        actions_[i - 1].microBatch != a.microBatch)
      say(a, " is not right behind its ", toString(kind));
  }

  void checkSlot(const Action& a) {
    if (!a.computes()) {
      if (a.slot != 0) say(a, " names slot ", a.slot, ", and needs none");
      return;
    }
    const auto slot = static_cast<size_t>(a.slot);
    if (slot >= holders_.size()) holders_.resize(slot + 1);
    Life& of = life(a);
    if (of.slot < 0) {
      if (const Holder& h = holders_[slot]; h.microBatch >= 0)
        say(a, " takes slot ", slot, ", which micro-batch ", h.microBatch, " of chunk ", h.chunk,
            " has");
      of.slot = a.slot;
      holders_[slot] = {a.chunk, a.microBatch};
    }
    if (holders_[slot] != Holder{a.chunk, a.microBatch})
      say(a, " names slot ", slot, ", and had taken ", of.slot);
    if (a.kind == s_.last()) holders_[slot] = {};
  }

  void checkAscending(const Action& a) {
    int& next = nextWeights_[static_cast<size_t>(a.chunk)];
    if (a.microBatch != next)
      say(a, " adds weight gradients of micro-batch ", a.microBatch, " where ", next, " is next");
    next = a.microBatch + 1;
  }

  const Schedule& s_;
  const int rank_;
  const std::vector<Action>& actions_;
  Violations& found_;
  size_t at_ = 0;
  std::vector<Life> lives_;
  std::vector<Holder> holders_;  // by slot
  std::vector<int> nextWeights_;
};

// ---- pairs of ranks ----

/// What is sent, in terms that both ends have.
struct MatchedMessage {
  bool forward;
  int producer, microBatch;
  size_t index;  // of the action
  bool same(const MatchedMessage& other) const {
    return forward == other.forward && producer == other.producer && microBatch == other.microBatch;
  }
};

using Pair = std::pair<int, int>;  // from, to
using Messages = std::map<Pair, std::vector<MatchedMessage>>;

void checkPairs(const Schedule& s, Violations& found) {
  Messages sent, received;
  for (int rank = 0; rank < s.ranks; ++rank)
    for (size_t i = 0; const Action& a : s.byRank[static_cast<size_t>(rank)]) {
      if (!a.computes()) {
        const auto [peer, producer] = transferOf(s, rank, a);
        const bool forward = a.kind == ActionKind::SendF || a.kind == ActionKind::RecvF;
        (a.sends() ? sent[{rank, peer}] : received[{peer, rank}])
            .push_back({forward, producer, a.microBatch, i});
      }
      ++i;
    }
  for (const auto& [pair, messages] : sent) {
    const auto& others = received[pair];
    for (size_t i = 0; i < std::min(messages.size(), others.size()); ++i)
      if (!messages[i].same(others[i])) {
        report(found, pair.second, others[i].index, "receives message ", i, " of rank ", pair.first,
               " for another one: that is action ", messages[i].index, " there, ",
               s.byRank[static_cast<size_t>(pair.first)][messages[i].index]);
        break;
      }
  }
}

/// Runs all ranks without any buffer. Pairs have to match.
class SendReceiveMatcher {
 public:
  explicit SendReceiveMatcher(const Schedule& s) : s_(s), at_(static_cast<size_t>(s.ranks)) {}

  void run(Violations& found) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < s_.ranks; ++rank) moved = advance(rank) || moved;
      for (int rank = s_.ranks - 1; rank >= 0; --rank) moved = advance(rank) || moved;
    }
    for (int rank = 0; rank < s_.ranks; ++rank) {
      size_t at = at_[static_cast<size_t>(rank)];
      if (at == actions(rank).size()) continue;
      while (post(rank, actions(rank)[at])) ++at;
      report(found, rank, at, actions(rank)[at], " waits for rank ",
             transferOf(s_, rank, actions(rank)[at]).peer, " for ever");
    }
  }

 private:
  const std::vector<Action>& actions(int rank) const {
    return s_.byRank[static_cast<size_t>(rank)];
  }

  /// Posts the group that the rank is at, and leaves it when all has met its other end.
  bool advance(int rank) {
    size_t& at = at_[static_cast<size_t>(rank)];
    const size_t from = at;
    while (at < actions(rank).size()) {
      const auto group = std::span(actions(rank)).subspan(at);
      const size_t together = groupSize(group);
      bool all = true;
      for (const Action& a : group.first(together)) all = post(rank, a) && all;
      if (!all) break;
      at += std::max<size_t>(together, 1);
    }
    return at > from || std::exchange(posted_, false);
  }

  /// Whether both ends are there.
  bool post(int rank, const Action& a) {
    const auto [peer, producer] = transferOf(s_, rank, a);
    const bool forward = a.kind == ActionKind::SendF || a.kind == ActionKind::RecvF;
    int& ends = ends_[{forward, producer, a.microBatch}];
    const int mine = a.sends() ? 1 : 2;
    if ((ends & mine) == 0) posted_ = true;
    ends |= mine;
    return ends == 3;
  }

  const Schedule& s_;
  std::vector<size_t> at_;
  std::map<std::tuple<bool, int, int>, int> ends_;
  bool posted_ = false;  // something new
};

}  // namespace

std::string Violation::describe() const {
  return message("rank ", rank, ", action ", index, ": ", what);
}

std::vector<Violation> violations(const Schedule& s) {
  Violations found;
  checkFields(s, found);
  if (!found.empty()) return found;
  for (int rank = 0; rank < s.ranks; ++rank) RankCheck(s, rank, found).run();
  if (!found.empty()) return found;
  checkPairs(s, found);
  if (found.empty()) SendReceiveMatcher(s).run(found);
  return found;
}

void validate(const Schedule& schedule) {
  constexpr size_t kShown = 5;
  const Violations found = violations(schedule);
  if (found.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(found.size(), kShown); ++i) text += "\n  " + found[i].describe();
  fail(ErrorCode::InvalidArgument, "schedule ", schedule.name, " has ", found.size(),
       found.size() == 1 ? " fault:" : " faults:", text);
}

}  // namespace tutti::parallel
