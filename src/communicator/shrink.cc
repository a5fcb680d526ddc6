// Agreement among survivors. In each round every survivor sends its set of dead ranks to all that
// it believes alive and waits for theirs; sets only grow. A round in which all views are equal
// decides. A rank that decided while another saw one more death finds the new communicator failing
// in set-up and joins the next round, so all end with the same set.

#include "src/base/check.h"
#include "src/communicator/state.h"

namespace tutti {

std::vector<int> Communicator::Impl::agreeOnSurvivors(base::Deadline deadline, uint32_t& round,
                                                      std::set<int>& dead) {
  const auto collectDead = [&] {  // with the lock
    for (int peer = 0; peer < size; ++peer)
      if (peers[peer].lost || peers[peer].left) dead.insert(peer);
  };
  while (true) {
    std::unique_lock lock(mutex);
    collectDead();
    const std::set<int> mine = dead;
    lock.unlock();
    base::ByteWriter view;
    view.put(issued.load(std::memory_order_relaxed));
    view.put(round).put(static_cast<uint32_t>(mine.size()));
    for (const int peer : mine) view.put(static_cast<int32_t>(peer));
    const base::Bytes payload = view.take();
    for (int peer = 0; peer < size; ++peer)
      if (peer != who.rank && !mine.contains(peer)) send(peer, Message::View, payload);
    lock.lock();
    const auto missing = [&] {
      for (int peer = 0; peer < size; ++peer) {
        const Peer& p = peers[peer];
        if (peer == who.rank || mine.contains(peer) || p.lost || p.left) continue;
        if (!p.views.contains(round)) return peer;
      }
      return -1;
    };
    if (!changed.wait_for(lock, std::chrono::milliseconds(deadline.remainingMs()),
                          [&] { return missing() < 0; })) {
      const int absent = missing();
      lock.unlock();
      base::fail(ErrorCode::Timeout, self(), ": shrink timed out while waiting for ", name(absent),
                 ", which is alive but has not called shrink");
    }
    collectDead();
    bool equal = dead == mine;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == who.rank || mine.contains(peer) || !peers[peer].views.contains(round)) continue;
      const std::set<int>& theirs = peers[peer].views[round];
      equal &= theirs == mine;
      dead.insert(theirs.begin(), theirs.end());
    }
    ++round;
    if (dead.contains(who.rank))
      base::fail(ErrorCode::PeerLost, self(), " is taken for dead by the other ranks");
    if (!equal) continue;
    std::vector<int> survivors;
    for (int peer = 0; peer < size; ++peer)
      if (!dead.contains(peer)) survivors.push_back(peer);
    return survivors;
  }
}

}  // namespace tutti
