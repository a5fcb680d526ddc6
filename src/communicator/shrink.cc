// Shrinking: agreement among the survivors, and the communicator that follows from it.
//
// A vote goes in rounds. In each round every survivor proposes its set of dead ranks to all that it
// believes alive and waits for theirs; sets only grow. A rank that sees one and the same set
// proposed by everybody outside it has decided, and tells so to all before it goes on; a rank that
// hears of a decision takes it over and tells it too. So no survivor can decide otherwise: while it
// waits for the proposal of one that has decided, the decision comes. (It is the early-deciding
// flooding consensus of "Introduction to Reliable and Secure Distributed Programming", with the
// control plane's ordered messages and its news of deaths.)
//
// What was decided is never voted on again. When somebody dies while the new communicator is set
// up, it exists on all survivors as a failed one, whether they were still in set-up or had returned
// it, and it is that one which is shrunk next.

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/communicator/state.h"

namespace tutti {
namespace {

base::ByteWriter& putRanks(base::ByteWriter& out, const std::set<int>& ranks) {
  out.put(static_cast<uint32_t>(ranks.size()));
  for (const int rank : ranks) out.put(static_cast<int32_t>(rank));
  return out;
}

}  // namespace

Communicator Communicator::shrink() {
  if (impl_->inForkedChild()) throw impl_->usedAfterFork();
  const auto deadline =
      base::Deadline::after(std::chrono::milliseconds(impl_->settings.setupTimeoutMs));
  std::shared_ptr<Impl> last = impl_;
  while (true) {
    auto next = last->shrunk(deadline);
    try {
      next->connect(deadline);
      return Communicator(std::move(next));
    } catch (const Error& e) {
      if (e.code() != ErrorCode::PeerLost) throw;
    }
    last = std::move(next);  // one more died
  }
}

std::shared_ptr<Communicator::Impl> Communicator::Impl::shrunk(base::Deadline deadline) {
  // This rank issues nothing more here. Others may still be in operations that it took part in;
  // those that wait for later ones learn it from the first view.
  fail(Error(ErrorCode::Aborted, self() + " shrinks the communicator"), false);
  awaitQuiet(deadline);
  std::vector<uint64_t> words{communicator::kFromShrink, voting.vote};
  Membership membership{who.world, {}, 0, 0};
  for (const int survivor : agreeOnSurvivors(deadline)) {
    if (survivor == who.rank) membership.rank = static_cast<int>(membership.members.size());
    membership.members.push_back(who.members[survivor]);
    words.push_back(static_cast<uint64_t>(survivor));
  }
  membership.id = communicator::derivedId(who.id, words);
  return std::make_shared<Impl>(std::move(membership), settings);
}

// An operation that a stream runs sees the failure at its next poll. After that this rank touches
// nobody's memory any more.
void Communicator::Impl::awaitQuiet(base::Deadline deadline) const {
  base::Backoff backoff(false);
  while (active.load(std::memory_order_seq_cst)) {
    if (deadline.passed())
      base::fail(ErrorCode::Timeout, self(), ": shrink timed out while operation ",
                 turn.load(std::memory_order_acquire), " was still running here");
    backoff.idle();
  }
}

std::vector<int> Communicator::Impl::agreeOnSurvivors(base::Deadline deadline) {
  auto& vote = voting.vote;
  auto& round = voting.round;
  auto& proposed = voting.proposed;
  auto& dead = voting.dead;
  const auto decided = [&] { return decisions.contains(vote); };
  const auto collectDead = [&] {  // with the lock
    for (int peer = 0; peer < size; ++peer)
      if (peers[peer].lost || peers[peer].left) dead.insert(peer);
  };
  const auto tell = [&](Message type, base::Bytes payload) {
    for (int peer = 0; peer < size; ++peer)
      if (peer != who.rank && !dead.contains(peer)) send(peer, type, payload);
  };
  while (true) {
    std::unique_lock lock(mutex);
    if (!proposed && !decided()) {
      collectDead();
      proposed = dead;
      lock.unlock();
      base::ByteWriter view;
      view.put(turn.load(std::memory_order_acquire) - 1).put(vote).put(round);
      tell(Message::View, putRanks(view, dead).take());
      lock.lock();
    }
    const auto missing = [&] {
      for (int peer = 0; peer < size; ++peer) {
        const Peer& p = peers[peer];
        if (peer == who.rank || proposed->contains(peer) || p.lost || p.left) continue;
        if (!p.views.contains({vote, round})) return peer;
      }
      return -1;
    };
    if (!changed.wait_for(lock, std::chrono::milliseconds(deadline.remainingMs()),
                          [&] { return decided() || missing() < 0; })) {
      const int absent = missing();
      lock.unlock();
      base::fail(ErrorCode::Timeout, self(), ": shrink timed out while waiting for ", name(absent),
                 ", which is alive but has not called shrink");
    }
    bool equal = true;
    if (decided()) {
      dead = decisions[vote];
    } else {
      collectDead();
      equal = dead == *proposed;
      for (int peer = 0; peer < size; ++peer) {
        if (peer == who.rank || proposed->contains(peer)) continue;
        const auto view = peers[peer].views.find({vote, round});
        if (view == peers[peer].views.end()) continue;  // lost before, so not equal
        equal &= view->second == *proposed;
        dead.insert(view->second.begin(), view->second.end());
      }
    }
    lock.unlock();
    if (dead.contains(who.rank))
      base::fail(ErrorCode::PeerLost, self(), " is taken for dead by the other ranks");
    proposed.reset();
    if (!equal) {
      ++round;
      continue;
    }
    base::ByteWriter decision;
    tell(Message::Decision, putRanks(decision.put(vote), dead).take());
    ++vote;
    round = 0;
    std::vector<int> survivors;
    for (int peer = 0; peer < size; ++peer)
      if (!dead.contains(peer)) survivors.push_back(peer);
    return survivors;
  }
}

}  // namespace tutti
