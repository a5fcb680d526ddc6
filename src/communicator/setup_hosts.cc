// The last of the set-up between hosts: whether these reach each other by the network of the data.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/communicator/state.h"
#include "transports/ucx/settings.h"

namespace tutti {
namespace {

using transports::ucx::kAdvice;

std::vector<int> ranksOf(const topology::Topology& topology, int host) {
  std::vector<int> ranks;
  for (int rank = 0; rank < topology.ranks; ++rank)
    if (topology.hostOf[rank] == host) ranks.push_back(rank);
  return ranks;
}

/// So that who finds something has time to tell the others before theirs is over, too.
base::Deadline halfWayTo(const base::Deadline& deadline) {
  return base::Deadline::after(std::chrono::milliseconds(deadline.remainingMs() / 2));
}

}  // namespace

// Of all of up to 17 hosts, and of those that are 10, 12, ..., each time about an eighth more, away
// in either direction, the ranks that have this one's place there, counted again from the first of
// the host that has fewer. So each rank is visited from all of these hosts.
std::vector<int> Communicator::Impl::ranksToVisit() const {
  const int hosts = topology.hosts(), host = topology.hostOf[who.rank];
  const std::vector<int> here = ranksOf(topology, host);
  const auto place = static_cast<size_t>(std::ranges::find(here, who.rank) - here.begin());
  std::set<int> others;
  for (int distance = 1; distance < hosts; distance += 1 + distance / 8)
    for (const int other : {host + distance, host + hosts - distance}) others.insert(other % hosts);
  std::vector<int> ranks;
  for (const int other : others) {
    const std::vector<int> there = ranksOf(topology, other);
    for (size_t at = place % there.size(); at < there.size(); at += here.size())
      ranks.push_back(there[at]);
  }
  return ranks;
}

// The network of the transport may be another one than the control plane's, and a rank may have
// told an address of it that leads nowhere, or to somebody else. That has to be known before
// anything is sent: UCX does not survive it.
void Communicator::Impl::visitHosts(base::Deadline deadline) {
  std::map<int, std::unique_ptr<transports::Visit>> visits;
  for (const int peer : visited) {
    try {
      if (auto visit = endpoint->visit(peer, transports::Visit::Places::All))
        visits.emplace(peer, std::move(visit));
    } catch (const Error& e) {
      cannotConnect(peer, e);
    }
  }
  base::Backoff backoff(false);
  while (true) {
    std::erase_if(visits, [&](const auto& each) {
      using enum transports::Visit::Finding;
      const auto finding = each.second->look();
      if (finding == Elsewhere || finding == Unreachable)
        cannotConnect(each.first,
                      Error(ErrorCode::PeerLost,
                            base::message("it is not reached at ", each.second->describe(),
                                          endpoint->ways(each.first), kAdvice)));
      return finding == Peer;
    });
    if (visits.empty()) return;
    throwIfFailed();
    if (deadline.passed()) {
      const auto& [peer, visit] = *visits.begin();
      base::fail(ErrorCode::Timeout, self(), ": set-up timed out while waiting for an answer of ",
                 name(peer), " at ", visit->describe(), endpoint->ways(peer), kAdvice);
    }
    backoff.idle();
  }
}

// Whether the transport gets through as well shows when something is sent: each rank sends an empty
// message to the one of the next host that has its place there, counted again from the first where
// that host has fewer.
void Communicator::Impl::crossHosts(base::Deadline deadline) {
  const int hosts = topology.hosts(), host = topology.hostOf[who.rank];
  const std::vector<int> here = ranksOf(topology, host),
                         next = ranksOf(topology, (host + 1) % hosts),
                         before = ranksOf(topology, (host + hosts - 1) % hosts);
  const auto place = static_cast<size_t>(std::ranges::find(here, who.rank) - here.begin());
  base::Backoff backoff(false);
  try {
    endpoint->sendRing(next[place % next.size()], 0).publish(0, 0, 0);
    endpoint->flush();
    for (size_t sender = place; sender < before.size(); sender += here.size()) {
      auto& in = endpoint->receiveRing(before[sender], 0);
      while (!in.ready()) {
        throwIfFailed();
        if (deadline.passed())
          base::fail(ErrorCode::Timeout, self(),
                     ": set-up timed out while waiting for a message of ", name(before[sender]),
                     " by ", endpoint->name(before[sender]), endpoint->ways(before[sender]),
                     kAdvice);
        if (!endpoint->progress()) backoff.idle();
      }
      in.release();
    }
    endpoint->flush();
  } catch (const transports::ConnectionLost& lost) {
    cannotConnect(lost.peer(), Error(lost.code(), lost.how()));
  }
}

void Communicator::Impl::reachHosts(base::Deadline deadline) {
  visitHosts(halfWayTo(deadline));
  awaitReadiness(2, deadline);
  crossHosts(halfWayTo(deadline));
  awaitReadiness(3, deadline);
}

}  // namespace tutti
