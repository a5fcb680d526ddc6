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

/// So that who finds something has time to tell the others before theirs is over, too.
base::Deadline halfWayTo(const base::Deadline& deadline) {
  return base::Deadline::after(std::chrono::milliseconds(deadline.remainingMs() / 2));
}

}  // namespace

// The network of the transport may be another one than the control plane's, and a rank may have
// told an address of it that leads nowhere, or to somebody else. That has to be known before
// anything is sent: UCX does not survive it.
void Communicator::Impl::visitHosts(base::Deadline deadline) {
  std::map<int, std::unique_ptr<transports::Visit>> visits;
  for (const int peer : links.visited()) {
    try {
      if (auto visit = links.endpoint()->visit(peer, transports::Visit::Places::All))
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
                                          links.endpoint()->ways(each.first), kAdvice)));
      return finding == Peer;
    });
    if (visits.empty()) return;
    throwIfFailed();
    if (deadline.passed()) {
      const auto& [peer, visit] = *visits.begin();
      base::fail(ErrorCode::Timeout, who.self(),
                 ": set-up timed out while waiting for an answer of ", who.name(peer), " at ",
                 visit->describe(), links.endpoint()->ways(peer), kAdvice);
    }
    backoff.idle();
  }
}

// Whether the transport gets through as well shows when something is sent: each rank sends an empty
// message to the one of the next host that has its place there, counted again from the first where
// that host has fewer.
void Communicator::Impl::crossHosts(base::Deadline deadline) {
  const topology::Topology& topology = links.topology();
  const int hosts = topology.hosts(), host = topology.hostOf[who.rank()];
  const std::vector<int> here = communicator::ranksOfHost(topology, host),
                         next = communicator::ranksOfHost(topology, (host + 1) % hosts),
                         before = communicator::ranksOfHost(topology, (host + hosts - 1) % hosts);
  const auto place = static_cast<size_t>(std::ranges::find(here, who.rank()) - here.begin());
  base::Backoff backoff(false);
  try {
    links.endpoint()->sendRing(next[place % next.size()], 0).publish(0, 0, 0);
    links.endpoint()->flush();
    for (size_t sender = place; sender < before.size(); sender += here.size()) {
      auto& in = links.endpoint()->receiveRing(before[sender], 0);
      while (!in.ready()) {
        throwIfFailed();
        if (deadline.passed())
          base::fail(ErrorCode::Timeout, who.self(),
                     ": set-up timed out while waiting for a message of ", who.name(before[sender]),
                     " by ", links.endpoint()->name(before[sender]),
                     links.endpoint()->ways(before[sender]), kAdvice);
        if (!links.endpoint()->progress()) backoff.idle();
      }
      in.release();
    }
    links.endpoint()->flush();
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
