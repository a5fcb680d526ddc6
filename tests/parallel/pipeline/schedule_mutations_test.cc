// Schedules that are spoiled, one action after the other, are refused; the few that are not are run
// by an interpreter of its own, in several orders, and compute what one rank would.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "parallel/pipeline/builders.h"
#include "parallel/pipeline/violations.h"

namespace tutti::parallel {
namespace {

using enum ActionKind;

/// Numbers that stand for tensors: what is computed of others.
uint64_t made(uint64_t what, uint64_t from, uint64_t other = 0) {
  uint64_t x =
      what * 0x9E3779B97F4A7C15u ^ from * 0xC2B2AE3D27D4EB4Fu ^ other * 0x165667B19E3779F9u;
  x ^= x >> 29;
  return x * 0xBF58476D1CE4E5B9u ^ (x >> 32);
}
uint64_t forwardOf(int stage, uint64_t x) { return made(1, static_cast<uint64_t>(stage), x); }
uint64_t backwardOf(int stage, uint64_t kept, uint64_t dy) {
  return made(2 + static_cast<uint64_t>(stage), kept, dy);
}

/// Weight gradients that each stage adds, in their order.
using Weights = std::vector<std::vector<uint64_t>>;

Weights ofOneRank(const Schedule& s) {
  Weights weights(static_cast<size_t>(s.stages()));
  for (int m = 0; m < s.microBatches; ++m) {
    std::vector<uint64_t> outputs;
    uint64_t x = made(0, static_cast<uint64_t>(m));
    for (int stage = 0; stage < s.stages(); ++stage) outputs.push_back(x = forwardOf(stage, x));
    uint64_t dy = 0;
    for (int stage = s.stages() - 1; stage >= 0; --stage) {
      dy = backwardOf(stage, outputs[static_cast<size_t>(stage)], dy);
      weights[static_cast<size_t>(stage)].push_back(dy);
    }
  }
  return weights;
}

/// Runs a schedule with messages that nobody buffers, ranks going on in a random order. Slots are
/// memory: what is in one is what was last written there.
class Interpreter {
 public:
  Interpreter(const Schedule& s, uint64_t seed)
      : s_(s),
        random_(seed),
        ranks_(static_cast<size_t>(s.ranks)),
        weights_(static_cast<size_t>(s.stages())) {}

  /// Nothing when ranks wait for ever, or read what is not there.
  std::optional<Weights> run() {
    for (;;) {
      std::vector<int> order(ranks_.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
      std::shuffle(order.begin(), order.end(), random_);
      bool moved = false, all = true;
      for (const int rank : order) {
        if (random_() % 3 == 0 && moved) continue;
        moved = step(rank) || moved;
        if (failed_) return {};
      }
      for (int rank = 0; rank < s_.ranks; ++rank) all = all && finished(rank);
      if (all) return weights_;
      if (!moved) return {};
    }
  }

 private:
  struct Rank {
    size_t at = 0;
    std::set<size_t> gone;          // transfers of the group that are over
    std::map<int, uint64_t> slots;  // kept activations
    std::map<std::pair<int, int>, uint64_t> x, dy, outputs, pending;  // by chunk and micro-batch
  };

  const std::vector<Action>& actions(int rank) const {
    return s_.byRank[static_cast<size_t>(rank)];
  }
  Rank& state(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  bool finished(int rank) { return state(rank).at == actions(rank).size(); }

  bool step(int rank) {
    if (finished(rank)) return false;
    Rank& r = state(rank);
    if (actions(rank)[r.at].computes()) {
      compute(rank, actions(rank)[r.at++]);
      return true;
    }
    const size_t end = groupEnd(rank);
    bool moved = false;
    for (size_t i = r.at; i < end; ++i)
      if (actions(rank)[i].sends() && !r.gone.contains(i)) moved = deliver(rank, i) || moved;
    if (r.gone.size() < end - r.at) return moved;
    r.at = end;
    r.gone.clear();
    return true;
  }

  size_t groupEnd(int rank) {
    size_t end = state(rank).at;
    while (end < actions(rank).size() && !actions(rank)[end].computes() &&
           (end == state(rank).at || !actions(rank)[end].apart))
      ++end;
    return end;
  }

  /// To the first receive from this rank that is posted and open; messages overtake nobody.
  bool deliver(int rank, size_t index) {
    for (size_t i = state(rank).at; i < index; ++i)
      if (actions(rank)[i].sends() && !state(rank).gone.contains(i) &&
          transferOf(s_, rank, actions(rank)[i]).peer ==
              transferOf(s_, rank, actions(rank)[index]).peer)
        return false;
    const Action& send = actions(rank)[index];
    const int peer = transferOf(s_, rank, send).peer;
    Rank& to = state(peer);
    for (size_t i = to.at; i < groupEnd(peer); ++i) {
      const Action& receive = actions(peer)[i];
      if (!receive.receives() || to.gone.contains(i)) continue;
      if (transferOf(s_, peer, receive).peer != rank) continue;
      const auto& from = send.kind == SendF ? state(rank).outputs : state(rank).pending;
      const auto value = from.find({send.chunk, send.microBatch});
      if (value == from.end()) return failed_ = true;
      (receive.kind == RecvF ? to.x : to.dy)[{receive.chunk, receive.microBatch}] = value->second;
      to.gone.insert(i);
      state(rank).gone.insert(index);
      return true;
    }
    return false;
  }

  uint64_t take(std::map<std::pair<int, int>, uint64_t>& from, const Action& a) {
    const auto found = from.find({a.chunk, a.microBatch});
    if (found == from.end()) {
      failed_ = true;
      return 0;
    }
    const uint64_t value = found->second;
    from.erase(found);
    return value;
  }

  void compute(int rank, const Action& a) {
    Rank& r = state(rank);
    const int stage = s_.stage(rank, a.chunk);
    const std::pair<int, int> key{a.chunk, a.microBatch};
    if (a.kind == F) {
      const uint64_t x = stage == 0 ? made(0, static_cast<uint64_t>(a.microBatch)) : take(r.x, a);
      r.slots[a.slot] = r.outputs[key] = forwardOf(stage, x);
      if (stage + 1 < s_.stages() && s_.rankOf(stage + 1) == rank)
        r.x[{s_.chunkOf(stage + 1), a.microBatch}] = r.outputs[key];
    } else if (a.kind == B) {
      const uint64_t dy = stage + 1 == s_.stages() ? 0 : take(r.dy, a);
      if (!r.slots.contains(a.slot)) failed_ = true;
      r.pending = {{key, backwardOf(stage, r.slots[a.slot], dy)}};
      if (stage > 0 && s_.rankOf(stage - 1) == rank)
        r.dy[{s_.chunkOf(stage - 1), a.microBatch}] = r.pending[key];
      if (s_.splitsBackward) {
        r.slots[a.slot] = r.pending[key];
      } else {
        weights_[static_cast<size_t>(stage)].push_back(r.pending[key]);
        r.slots.erase(a.slot);
      }
    } else {
      if (!r.slots.contains(a.slot)) failed_ = true;
      weights_[static_cast<size_t>(stage)].push_back(r.slots[a.slot]);
      r.slots.erase(a.slot);
    }
  }

  const Schedule& s_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  Weights weights_;
  bool failed_ = false;
};

bool computesTheSame(const Schedule& s) {
  const Weights expected = ofOneRank(s);
  for (uint64_t seed = 0; seed < 5; ++seed)
    if (Interpreter(s, seed).run() != expected) return false;
  return true;
}

std::vector<Schedule> schedules() {
  std::vector<Schedule> all;
  for (const auto kind :
       {ScheduleKind::Naive, ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::Interleaved,
        ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV})
    for (const auto& [p, m] : {std::pair{1, 3}, {2, 1}, {2, 4}, {3, 2}, {3, 5}, {4, 6}})
      all.push_back(buildSchedule({.kind = kind, .ranks = p, .microBatches = m}));
  return all;
}

/// Calls visit(schedule, rank, index) for each action.
void forActions(const std::function<void(const Schedule&, int, size_t)>& visit) {
  for (const Schedule& s : schedules())
    for (int rank = 0; rank < s.ranks; ++rank)
      for (size_t i = 0; i < s.byRank[static_cast<size_t>(rank)].size(); ++i) visit(s, rank, i);
}

std::string where(const Schedule& s, int rank, size_t index) {
  return message(s.name, " of ", s.ranks, " ranks and ", s.microBatches, ", rank ", rank,
                 ", action ", index, ": ", s.byRank[static_cast<size_t>(rank)][index]);
}

int accepted = 0, refused = 0;

/// Refused, or harmless.
void expectSeen(const Schedule& spoiled, const std::string& how) {
  if (violations(spoiled).empty()) {
    ++accepted;
    EXPECT_TRUE(computesTheSame(spoiled)) << how;
  } else {
    ++refused;
  }
}

TEST(ScheduleMutations, OfNothingComputeWhatOneRankDoes) {
  for (const Schedule& s : schedules()) {
    EXPECT_EQ(violations(s).size(), 0U) << s.name;
    EXPECT_TRUE(computesTheSame(s)) << s.name << " " << s.ranks << " " << s.microBatches;
    EXPECT_NO_THROW(validate(s));
  }
}

TEST(ScheduleMutations, DropAnAction) {
  forActions([](const Schedule& s, int rank, size_t i) {
    Schedule spoiled = s;
    auto& actions = spoiled.byRank[static_cast<size_t>(rank)];
    const std::string dropped = message(actions[i], " is missing");
    actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(i));
    const auto found = violations(spoiled);
    const bool named = std::any_of(found.begin(), found.end(), [&](const Violation& v) {
      return v.rank == rank && v.what == dropped && v.index == static_cast<int>(actions.size());
    });
    EXPECT_TRUE(named) << where(s, rank, i);
    EXPECT_THROW(validate(spoiled), Error);
  });
}

TEST(ScheduleMutations, DoubleAnAction) {
  forActions([](const Schedule& s, int rank, size_t i) {
    for (const size_t to : {i, i + 1, s.byRank[static_cast<size_t>(rank)].size()}) {
      Schedule spoiled = s;
      auto& actions = spoiled.byRank[static_cast<size_t>(rank)];
      const Action twice = actions[i];
      actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(to), twice);
      const auto found = violations(spoiled);
      ASSERT_FALSE(found.empty()) << where(s, rank, i);
      EXPECT_EQ(found[0].rank, rank);
      EXPECT_EQ(found[0].index, static_cast<int>(std::max(i + 1, to))) << where(s, rank, i);
    }
  });
}

TEST(ScheduleMutations, SwapActions) {
  accepted = refused = 0;
  forActions([](const Schedule& s, int rank, size_t i) {
    for (size_t far = 1; far < 5; ++far) {
      Schedule spoiled = s;
      auto& actions = spoiled.byRank[static_cast<size_t>(rank)];
      if (i + far >= actions.size()) return;
      std::swap(actions[i], actions[i + far]);
      expectSeen(spoiled, where(s, rank, i) + message(" swapped with the ", far, "th behind it"));
    }
  });
  printf("%d swaps refused, %d harmless\n", refused, accepted);
  EXPECT_GT(refused, 5 * accepted);
}

TEST(ScheduleMutations, MoveAnActionAway) {
  accepted = refused = 0;
  forActions([](const Schedule& s, int rank, size_t i) {
    for (const bool back : {false, true}) {
      Schedule spoiled = s;
      auto& actions = spoiled.byRank[static_cast<size_t>(rank)];
      const Action moved = actions[i];
      actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(i));
      actions.insert(back ? actions.begin() : actions.end(), moved);
      if (actions != s.byRank[static_cast<size_t>(rank)])
        expectSeen(spoiled, where(s, rank, i) + (back ? " at first" : " at last"));
    }
  });
  printf("%d moves refused, %d harmless\n", refused, accepted);
  EXPECT_GT(refused, 5 * accepted);
}

TEST(ScheduleMutations, ChangeAField) {
  accepted = refused = 0;
  forActions([](const Schedule& s, int rank, size_t i) {
    const auto change = [&](const std::string& what, const std::function<void(Action&)>& with) {
      Schedule spoiled = s;
      with(spoiled.byRank[static_cast<size_t>(rank)][i]);
      expectSeen(spoiled, where(s, rank, i) + ": " + what);
    };
    change("next micro-batch", [](Action& a) { ++a.microBatch; });
    change("micro-batch before", [](Action& a) { --a.microBatch; });
    change("next chunk", [](Action& a) { ++a.chunk; });
    change("chunk before", [](Action& a) { --a.chunk; });
    change("next slot", [](Action& a) { ++a.slot; });
    change("slot before", [](Action& a) { --a.slot; });
    for (const auto kind : {F, B, W, SendF, RecvF, SendB, RecvB})
      if (kind != s.byRank[static_cast<size_t>(rank)][i].kind)
        change(toString(kind), [&](Action& a) { a.kind = kind; });
  });
  printf("%d changes refused, %d harmless\n", refused, accepted);
  EXPECT_EQ(accepted, 0);
}

TEST(ScheduleMutations, OfTheWholeAreNamed) {
  const Schedule good = buildSchedule({.ranks = 2, .microBatches = 2});
  const auto first = [](const Schedule& s) {
    const auto found = violations(s);
    return found.empty() ? std::string("nothing") : found[0].describe();
  };
  Schedule s = good;
  s.byRank.pop_back();
  EXPECT_EQ(first(s),
            "rank 0, action 0: actions of 1 ranks; there are 2 with 1 chunks and 2 "
            "micro-batches");
  s = good;  // F 0 [SendF 0] F 1 [SendF 1, RecvB 0] B 0 [RecvB 1] B 1, and
             // [RecvF 0] F 0 [RecvF 1] B 0 [SendB 0] F 1 B 1 [SendB 1]
  ASSERT_EQ(s.byRank[0].size(), 8U);
  std::swap(s.byRank[0][5], s.byRank[0][7]);
  EXPECT_EQ(first(s), "rank 0, action 5: B 1 comes before its RecvB");
  s = good;
  s.byRank[0][2].slot = 0;
  EXPECT_EQ(first(s), "rank 0, action 2: F 1 takes slot 0, which micro-batch 0 of chunk 0 has");
  s = good;
  for (auto& actions : s.byRank)  // all of micro-batch 1 before 0
    for (Action& a : actions) a.microBatch = 1 - a.microBatch;
  EXPECT_EQ(first(s),
            "rank 0, action 5: B 1 adds weight gradients of micro-batch 1 where 0 is next");
  s = good;
  std::swap(s.byRank[0][3], s.byRank[0][4]);
  EXPECT_EQ(first(s), "nothing");  // of one group
  s = good;                        // rank 1 receives what it has used
  std::rotate(s.byRank[1].begin() + 2, s.byRank[1].begin() + 3, s.byRank[1].begin() + 6);
  EXPECT_EQ(first(s), "rank 1, action 4: F 1 comes before its RecvF");
}

TEST(ScheduleMutations, RanksThatWaitForEachOtherAreNamed) {
  // Both begin with what the other has to send later.
  Schedule s{.name = "ring", .ranks = 2, .microBatches = 2};
  s.byRank = {{{F, 0, 0, 0},
               {SendF, 0, 0},
               {RecvB, 0, 0},
               {B, 0, 0, 0},
               {F, 0, 1, 0},
               {SendF, 0, 1},
               {RecvB, 0, 1},
               {B, 0, 1, 0}},
              {{RecvF, 0, 0},
               {F, 0, 0, 0},
               {RecvF, 0, 1},
               {B, 0, 0, 0},
               {SendB, 0, 0},
               {F, 0, 1, 0},
               {B, 0, 1, 0},
               {SendB, 0, 1}}};
  const auto found = violations(s);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].describe(), "rank 0, action 2: RecvB 0 waits for rank 1 for ever");
  EXPECT_EQ(found[1].describe(), "rank 1, action 2: RecvF 1 waits for rank 0 for ever");
  EXPECT_FALSE(computesTheSame(s));
}

TEST(ScheduleMutations, MessagesInAnotherOrderAreNamed) {
  Schedule s = buildSchedule({.kind = ScheduleKind::GPipe, .ranks = 2, .microBatches = 2});
  // Rank 1 takes micro-batch 1 for 0: what is received is what comes next.
  auto& actions = s.byRank[1];
  ASSERT_EQ(message(actions[0]) + message(actions[1]) + message(actions[2]) + message(actions[3]),
            "RecvF 0F 0RecvF 1F 1");
  actions[0].microBatch = actions[1].microBatch = 1;
  actions[2].microBatch = actions[3].microBatch = 0;
  std::swap(actions[1].slot, actions[3].slot);
  const auto found = violations(s);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].describe(),
            "rank 1, action 0: receives message 0 of rank 0 for another one: that is action 1 "
            "there, SendF 0");
  EXPECT_FALSE(computesTheSame(s));
}

}  // namespace
}  // namespace tutti::parallel
