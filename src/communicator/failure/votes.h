#pragma once

// Votes: how the survivors of a failure agree on who is dead, for shrink().
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
// It owns the others' views and the decisions, and handles View and Decision: the monitor's thread
// writes them, and FailureState's lock protects them. It owns this rank's part in the votes too,
// which only the thread that calls survivors() touches.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/communicator/failure/failure_state.h"
#include "src/communicator/membership.h"
#include "src/communicator/messages.h"
#include "src/communicator/peers.h"

namespace tutti::communicator {

class Votes {
 public:
  Votes(const Membership& who, Messages& messages, FailureState& failure, Peers& peers);

  /// How many have been decided.
  uint32_t count() const { return own_.vote; }
  /// Votes. In order of their ranks; this rank is one of them. What was proposed to a vote stays
  /// proposed: a call that timed out is taken up where it was by the next. `collectives` that this
  /// rank has done are told to the others. Throws Timeout, and PeerLost where the others take this
  /// rank for dead.
  std::vector<int> survivors(base::Deadline deadline, uint64_t collectives);

 private:
  class Vote;
  struct Own {
    uint32_t vote = 0;  // counts decisions
    uint32_t round = 0;
    std::optional<std::set<int>> proposed;  // in this round
    std::set<int> dead;                     // known so far; only grows
  };
  using Views = std::map<std::pair<uint32_t, uint32_t>, std::set<int>>;  // dead, by vote and round

  void take(int peer, message::ViewMessage view);

  const Membership& who_;
  Messages& messages_;
  FailureState& failure_;
  Peers& peers_;
  std::vector<Views> views_;                     // by rank
  std::map<uint32_t, std::set<int>> decisions_;  // dead, by vote
  Own own_;
};

}  // namespace tutti::communicator
