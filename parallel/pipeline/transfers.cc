#include <algorithm>

#include "parallel/pipeline/orders.h"

namespace tutti::parallel {

namespace {

bool hasPrevious(const Schedule& s, int rank, int chunk, bool forward) {
  const int stage = s.stage(rank, chunk);
  return forward ? stage > 0 : stage + 1 < s.stages();
}

/// What a computation reads, if another rank makes it.
bool needsReceive(const Schedule& s, int rank, const Action& a) {
  if (a.kind == ActionKind::W) return false;
  const bool forward = a.kind == ActionKind::F;
  if (!hasPrevious(s, rank, a.chunk, forward)) return false;
  return s.rankOf(s.stage(rank, a.chunk) + (forward ? -1 : 1)) != rank;
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
Action receiveOf(Action a) {
  a.kind = a.kind == ActionKind::F ? ActionKind::RecvF : ActionKind::RecvB;
  return a;
}

/// Runs the computations of all ranks without any buffer: a rank goes on from a group of transfers
/// when all of them have met their other ends.
class Rendezvous {
 public:
  Rendezvous(Schedule& schedule, const Orders& orders)
      : s_(schedule),
        orders_(orders),
        ranks_(orders.size()),
        posted_(2 * static_cast<size_t>(s_.stages()) * static_cast<size_t>(s_.microBatches)) {
    s_.byRank.assign(orders.size(), {});
    for (int rank = 0; rank < s_.ranks; ++rank) openGroup(rank);
  }

  void run() {
    for (;;) {
      bool moved = false;
      for (int rank = 0; rank < s_.ranks; ++rank)
        while (advance(rank)) moved = true;
      for (int rank = s_.ranks - 1; rank >= 0; --rank)
        while (advance(rank)) moved = true;
      if (moved) continue;
      if (finished()) return;
      moveUpOne();
    }
  }

 private:
  static constexpr uint8_t kSent = 1, kReceived = 2;
  struct Rank {
    size_t next = 0;   // computation
    size_t group = 0;  // where its open group begins in byRank
  };

  std::vector<Action>& actions(int rank) { return s_.byRank[static_cast<size_t>(rank)]; }
  Rank& state(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const std::vector<Action>& order(int rank) const { return orders_[static_cast<size_t>(rank)]; }

  /// Which of the two ends are there.
  uint8_t& posted(int rank, const Action& a) {
    const bool forward = a.kind == ActionKind::SendF || a.kind == ActionKind::RecvF;
    const int line = transferOf(s_, rank, a).producer + (forward ? 0 : s_.stages());
    return posted_[static_cast<size_t>(line) * static_cast<size_t>(s_.microBatches) +
                   static_cast<size_t>(a.microBatch)];
  }
  bool met(int rank, const Action& a) { return posted(rank, a) == (kSent | kReceived); }

  /// Sends what the last computation made, and receives what the next one needs.
  void openGroup(int rank) {
    Rank& r = state(rank);
    const auto& all = order(rank);
    r.group = actions(rank).size();
    if (r.next > 0 && needsSend(s_, rank, all[r.next - 1])) {
      actions(rank).push_back(sendOf(all[r.next - 1]));
      posted(rank, actions(rank).back()) |= kSent;
    }
    if (r.next == all.size() || !needsReceive(s_, rank, all[r.next])) return;
    const Action receive = receiveOf(all[r.next]);
    if ((posted(rank, receive) & kReceived) != 0) return;  // it was moved up
    actions(rank).push_back(receive);
    posted(rank, receive) |= kReceived;
  }

  /// Whether the rank could go on, and did.
  bool advance(int rank) {
    Rank& r = state(rank);
    for (size_t i = r.group; i < actions(rank).size(); ++i)
      if (!met(rank, actions(rank)[i])) return false;
    if (r.next == order(rank).size()) return false;
    actions(rank).push_back(order(rank)[r.next++]);
    openGroup(rank);
    return true;
  }

  bool finished() const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].next < orders_[rank].size()) return false;
    return true;
  }

  /// The receive of what `rank` sends, for the rank that it goes to.
  Action receiverOf(int rank, const Action& send) const {
    const bool forward = send.kind == ActionKind::SendF;
    const int stage = s_.stage(rank, send.chunk) + (forward ? 1 : -1);
    return {forward ? ActionKind::RecvF : ActionKind::RecvB, s_.chunkOf(stage), send.microBatch};
  }

  /// Computations of the rank before the one that needs what is received.
  size_t distance(int rank, const Action& receive) {
    const Action user{receive.kind == ActionKind::RecvF ? ActionKind::F : ActionKind::B,
                      receive.chunk, receive.microBatch};
    const auto begin = order(rank).begin() + static_cast<std::ptrdiff_t>(state(rank).next);
    return static_cast<size_t>(std::find(begin, order(rank).end(), user) - begin);
  }

  /// Of the messages that ranks wait to get rid of, the one that is needed soonest.
  void moveUpOne() {
    int at = -1, from = -1;
    size_t nearest = 0;
    Action receive{};
    for (int rank = 0; rank < s_.ranks; ++rank)
      for (size_t i = state(rank).group; i < actions(rank).size(); ++i) {
        const Action send = actions(rank)[i];
        if (!send.sends() || met(rank, send)) continue;
        const int peer = transferOf(s_, rank, send).peer;
        const Action other = receiverOf(rank, send);
        const size_t far = distance(peer, other);
        if (at >= 0 && far >= nearest) continue;
        at = peer, from = rank, nearest = far, receive = other;
      }
    require(at >= 0, "schedule ", s_.name, " has an order in which ranks wait for each other");
    moveUp(at, from, receive);
  }

  /// Into the open group, before what comes from the same rank later.
  void moveUp(int rank, int from, const Action& receive) {
    auto& all = actions(rank);
    size_t place = state(rank).group;
    const auto later = [&](const Action& a) {
      return a.receives() && transferOf(s_, rank, a).peer == from && !met(rank, a);
    };
    while (place < all.size() && !later(all[place])) ++place;
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(place), receive);
    posted(rank, receive) |= kReceived;
  }

  Schedule& s_;
  const Orders& orders_;
  std::vector<Rank> ranks_;
  std::vector<uint8_t> posted_;  // by direction, stage that makes it, and micro-batch
};

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

void setActions(Schedule& schedule, const Orders& orders) {
  Rendezvous(schedule, orders).run();
  for (auto& actions : schedule.byRank) setSlots(schedule, actions);
}

}  // namespace tutti::parallel
