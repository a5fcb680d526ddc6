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
// All this needs that a rank which one survivor has lost is dead for all. Where only a connection
// broke, and the process at its other end still runs, both ends wait for each other's end; so they
// time out, and nobody goes on without them.
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
  if (impl_->who.inForkedChild()) throw communicator::Membership::usedAfterFork();
  impl_->requireOutsideReduction();
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
  passOnFailure();
  fail(Error(ErrorCode::Aborted, who.self() + " shrinks the communicator"), false);
  awaitQuiet(deadline);
  const uint32_t vote = voting.vote;
  const std::vector<int> survivors = agreeOnSurvivors(deadline);
  return std::make_shared<Impl>(who.part(survivors, children.idOfShrink(vote, survivors)),
                                settings);
}

// An operation that a stream runs sees the failure at its next poll. After that this rank touches
// nobody's memory any more.
void Communicator::Impl::awaitQuiet(base::Deadline deadline) {
  base::Backoff backoff(false);
  while (active.load(std::memory_order_seq_cst) || (gpu && !gpuIsQuiet())) {
    if (deadline.passed())
      base::fail(ErrorCode::Timeout, who.self(), ": timed out while operation ",
                 turn.load(std::memory_order_acquire), " was still running here");
    backoff.idle();
  }
}

/// One rank's part in a vote; it takes up what an earlier call has left in `voting`.
class Communicator::Impl::Vote {
 public:
  Vote(Impl& impl, base::Deadline deadline)
      : impl_(impl), deadline_(deadline), at_(impl.voting), lock_(impl.mutex) {}

  std::vector<int> survivors() {
    do propose();
    while (!conclude());
    std::vector<int> alive;
    for (int peer = 0; peer < impl_.size; ++peer)
      if (!at_.dead.contains(peer)) alive.push_back(peer);
    return alive;
  }

 private:
  bool decided() const { return impl_.decisions.contains(at_.vote); }

  /// A rank that this one cannot reach although its process runs; -1: none. Nobody may take it for
  /// dead, because it would go on with others who do not: it is waited for until it has ended.
  int cutOff() const {
    for (int peer = 0; peer < impl_.size; ++peer)
      if (const Peer& p = impl_.peers[peer];
          p.lost && !p.left && impl_.who.control().runs(impl_.who.inWorld(peer)))
        return peer;
    return -1;
  }

  /// A rank whose proposal for this round has not come; -1: none.
  int missing() const {
    for (int peer = 0; peer < impl_.size; ++peer) {
      const Peer& p = impl_.peers[peer];
      if (peer == impl_.who.rank() || at_.proposed->contains(peer) || p.lost || p.left) continue;
      if (!p.views.contains({at_.vote, at_.round})) return peer;
    }
    return -1;
  }

  /// The end of a process that was lost before comes without notice, so it is looked for.
  template <class Ready>
  void await(const Ready& ready) {
    constexpr int kLookMs = 50;
    while (cutOff() >= 0 || !ready()) {
      if (deadline_.passed()) giveUp();
      impl_.changed.wait_for(lock_,
                             std::chrono::milliseconds(std::min(kLookMs, deadline_.remainingMs())));
    }
  }

  [[noreturn]] void giveUp() {
    const int lost = cutOff(), peer = lost >= 0 ? lost : missing();
    lock_.unlock();
    base::fail(ErrorCode::Timeout, impl_.who.self(), ": shrink timed out while waiting for ",
               impl_.who.name(peer),
               lost >= 0 ? ", which cannot be reached and whose process has not ended"
                         : ", which is alive but has not come to this shrink");
  }

  void collectDead() {
    for (int peer = 0; peer < impl_.size; ++peer)
      if (impl_.peers[peer].lost || impl_.peers[peer].left) at_.dead.insert(peer);
  }

  void tell(Message type, const base::Bytes& payload) {
    lock_.unlock();
    for (int peer = 0; peer < impl_.size; ++peer)
      if (peer != impl_.who.rank() && !at_.dead.contains(peer)) impl_.send(peer, type, payload);
    lock_.lock();
  }

  void propose() {
    await([] { return true; });
    if (at_.proposed || decided()) return;
    collectDead();
    at_.proposed = at_.dead;
    base::ByteWriter view;
    view.put(impl_.collectivesDone.load(std::memory_order_acquire)).put(at_.vote).put(at_.round);
    tell(Message::View, putRanks(view, at_.dead).take());
  }

  /// True: decided, and told. False: another round.
  bool conclude() {
    await([&] { return decided() || missing() < 0; });
    const bool agreed = decided() ? adopt() : compare();
    if (at_.dead.contains(impl_.who.rank()))
      base::fail(ErrorCode::PeerLost, impl_.who.self(), " is taken for dead by the other ranks");
    at_.proposed.reset();
    if (!agreed) {
      ++at_.round;
      return false;
    }
    base::ByteWriter decision;
    tell(Message::Decision, putRanks(decision.put(at_.vote), at_.dead).take());
    ++at_.vote;
    at_.round = 0;
    return true;
  }

  bool adopt() {
    at_.dead = impl_.decisions[at_.vote];
    return true;
  }

  /// Takes in what the others proposed; true when it is what this rank did.
  bool compare() {
    collectDead();
    bool equal = at_.dead == *at_.proposed;
    for (int peer = 0; peer < impl_.size; ++peer) {
      if (peer == impl_.who.rank() || at_.proposed->contains(peer)) continue;
      const auto view = impl_.peers[peer].views.find({at_.vote, at_.round});
      if (view == impl_.peers[peer].views.end()) continue;  // lost before, so not equal
      equal &= view->second == *at_.proposed;
      at_.dead.insert(view->second.begin(), view->second.end());
    }
    return equal;
  }

  Impl& impl_;
  const base::Deadline deadline_;
  Voting& at_;
  std::unique_lock<std::mutex> lock_;
};

std::vector<int> Communicator::Impl::agreeOnSurvivors(base::Deadline deadline) {
  return Vote(*this, deadline).survivors();
}

}  // namespace tutti
