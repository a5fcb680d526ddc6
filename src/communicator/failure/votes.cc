#include "src/communicator/failure/votes.h"

#include <algorithm>
#include <chrono>

#include "src/base/check.h"

namespace tutti::communicator {

Votes::Votes(const Membership& who, Messages& messages, FailureState& failure, Peers& peers)
    : who_(who),
      messages_(messages),
      failure_(failure),
      peers_(peers),
      views_(static_cast<size_t>(who.size())) {
  messages.handle<message::ViewMessage>(
      [this](int peer, message::ViewMessage view, const auto&) { take(peer, std::move(view)); });
  messages.handle<message::DecisionMessage>(
      [this](int, message::DecisionMessage told, const auto&) {
        const auto lock = failure_.lock();
        decisions_.emplace(told.vote, std::move(told.dead));
      });
}

void Votes::take(int peer, message::ViewMessage view) {
  const auto lock = failure_.lock();
  Views& views = views_[static_cast<size_t>(peer)];
  const std::pair at(view.vote, view.round);
  if (!views.empty() && views.rbegin()->first >= at)
    base::fail(ErrorCode::Refused, "a view of vote ", view.vote, ", round ", view.round,
               " came after a later one");
  views[at] = std::move(view.dead);
  peers_.noteStopped(peer, view.collectives, lock);
}

/// One rank's part in a vote; it takes up what an earlier call has left in `own_`.
class Votes::Vote {
 public:
  Vote(Votes& votes, base::Deadline deadline, uint64_t collectives)
      : votes_(votes),
        deadline_(deadline),
        collectives_(collectives),
        at_(votes.own_),
        lock_(votes.failure_.lock()) {}

  std::vector<int> survivors() {
    do propose();
    while (!conclude());
    std::vector<int> alive;
    for (int peer = 0; peer < votes_.who_.size(); ++peer)
      if (!at_.dead.contains(peer)) alive.push_back(peer);
    return alive;
  }

 private:
  bool decided() const { return votes_.decisions_.contains(at_.vote); }
  const Peers::Peer& known(int peer) const { return votes_.peers_.at(peer, lock_); }
  const Views& views(int peer) const { return votes_.views_[static_cast<size_t>(peer)]; }

  /// A rank that this one cannot reach although its process runs; -1: none. Nobody may take it for
  /// dead, because it would go on with others who do not: it is waited for until it has ended.
  int cutOff() const {
    const Membership& who = votes_.who_;
    for (int peer = 0; peer < who.size(); ++peer)
      if (const Peers::Peer& p = known(peer);
          p.lost && !p.left && who.control().runs(who.inWorld(peer)))
        return peer;
    return -1;
  }

  /// A rank whose proposal for this round has not come; -1: none.
  int missing() const {
    for (int peer = 0; peer < votes_.who_.size(); ++peer) {
      if (peer == votes_.who_.rank() || at_.proposed->contains(peer) || known(peer).isGone())
        continue;
      if (!views(peer).contains({at_.vote, at_.round})) return peer;
    }
    return -1;
  }

  /// The end of a process that was lost before comes without notice, so it is looked for.
  template <class Ready>
  void await(const Ready& ready) {
    constexpr int kLookMs = 50;
    while (cutOff() >= 0 || !ready()) {
      if (deadline_.passed()) giveUp();
      votes_.failure_.wait(lock_,
                           std::chrono::milliseconds(std::min(kLookMs, deadline_.remainingMs())));
    }
  }

  [[noreturn]] void giveUp() {
    const int lost = cutOff(), peer = lost >= 0 ? lost : missing();
    lock_.unlock();
    base::fail(ErrorCode::Timeout, votes_.who_.self(), ": shrink timed out while waiting for ",
               votes_.who_.name(peer),
               lost >= 0 ? ", which cannot be reached and whose process has not ended"
                         : ", which is alive but has not come to this shrink");
  }

  void collectDead() {
    for (int peer = 0; peer < votes_.who_.size(); ++peer)
      if (known(peer).isGone()) at_.dead.insert(peer);
  }

  template <class Message>
  void tell(const Message& message) {
    lock_.unlock();
    for (int peer = 0; peer < votes_.who_.size(); ++peer)
      if (peer != votes_.who_.rank() && !at_.dead.contains(peer))
        votes_.messages_.send(peer, message);
    lock_.lock();
  }

  void propose() {
    await([] { return true; });
    if (at_.proposed || decided()) return;
    collectDead();
    at_.proposed = at_.dead;
    tell(message::ViewMessage{collectives_, at_.vote, at_.round, at_.dead});
  }

  /// True: decided, and told. False: another round.
  bool conclude() {
    await([&] { return decided() || missing() < 0; });
    const bool agreed = decided() ? adopt() : compare();
    if (at_.dead.contains(votes_.who_.rank()))
      base::fail(ErrorCode::PeerLost, votes_.who_.self(), " is taken for dead by the other ranks");
    at_.proposed.reset();
    if (!agreed) {
      ++at_.round;
      return false;
    }
    tell(message::DecisionMessage{at_.vote, at_.dead});
    ++at_.vote;
    at_.round = 0;
    return true;
  }

  bool adopt() {
    at_.dead = votes_.decisions_[at_.vote];
    return true;
  }

  /// Takes in what the others proposed; true when it is what this rank did.
  bool compare() {
    collectDead();
    bool equal = at_.dead == *at_.proposed;
    for (int peer = 0; peer < votes_.who_.size(); ++peer) {
      if (peer == votes_.who_.rank() || at_.proposed->contains(peer)) continue;
      const auto view = views(peer).find({at_.vote, at_.round});
      if (view == views(peer).end()) continue;  // lost before, so not equal
      equal &= view->second == *at_.proposed;
      at_.dead.insert(view->second.begin(), view->second.end());
    }
    return equal;
  }

  Votes& votes_;
  const base::Deadline deadline_;
  const uint64_t collectives_;
  Own& at_;
  FailureState::Lock lock_;
};

std::vector<int> Votes::survivors(base::Deadline deadline, uint64_t collectives) {
  return Vote(*this, deadline, collectives).survivors();
}

}  // namespace tutti::communicator
