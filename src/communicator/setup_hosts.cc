// The last of the set-up between hosts: whether these reach each other by the network of the data.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/communicator/failure/failure_state.h"
#include "src/communicator/links.h"
#include "src/communicator/peers.h"
#include "src/communicator/setup.h"

namespace tutti::communicator {
namespace {

/// So that who finds something has time to tell the others before theirs is over, too.
base::Deadline halfWayTo(const base::Deadline& deadline) {
  return base::Deadline::after(std::chrono::milliseconds(deadline.remainingMs() / 2));
}

// The network of the transport may be another one than the control plane's, and a rank may have
// told an address of it that leads nowhere, or to somebody else. That has to be known before
// anything is sent: UCX does not survive it.
void probeHosts(const Owners& c, base::Deadline deadline) {
  std::map<int, std::unique_ptr<transports::ReachabilityProbe>> probes;
  for (const int peer : c.links.probed()) {
    try {
      if (auto probe = c.links.endpoint()->probe(peer, transports::ReachabilityProbe::Scope::All))
        probes.emplace(peer, std::move(probe));
    } catch (const Error& e) {
      c.peers.cannotConnect(peer, e);
    }
  }
  base::Backoff backoff(false);
  while (true) {
    std::erase_if(probes, [&](const auto& each) {
      using enum transports::ReachabilityProbe::Finding;
      const auto finding = each.second->look();
      if (finding == Elsewhere || finding == Unreachable)
        c.peers.cannotConnect(each.first,
                              Error(ErrorCode::PeerLost,
                                    base::message("it is not reached at ", each.second->describe(),
                                                  c.links.endpoint()->ways(each.first),
                                                  c.links.network()->advice())));
      return finding == Peer;
    });
    if (probes.empty()) return;
    c.failure.throwIfFailed();
    if (deadline.passed()) {
      const auto& [peer, probe] = *probes.begin();
      base::fail(ErrorCode::Timeout, c.who.self(),
                 ": set-up timed out while waiting for an answer of ", c.who.name(peer), " at ",
                 probe->describe(), c.links.endpoint()->ways(peer), c.links.network()->advice());
    }
    backoff.idle();
  }
}

// Whether the transport gets through as well shows when something is sent: each rank sends an empty
// message to the one of the next host that has its place there, counted again from the first where
// that host has fewer.
void crossHosts(const Owners& c, base::Deadline deadline) {
  const topology::Topology& topology = c.links.topology();
  const int hosts = topology.hosts(), host = topology.hostOf[c.who.rank()];
  const std::vector<int> here = ranksOfHost(topology, host),
                         next = ranksOfHost(topology, (host + 1) % hosts),
                         before = ranksOfHost(topology, (host + hosts - 1) % hosts);
  const auto place = static_cast<size_t>(std::ranges::find(here, c.who.rank()) - here.begin());
  base::Backoff backoff(false);
  try {
    c.links.endpoint()->sendRing(next[place % next.size()], 0).publish(0, 0, 0);
    c.links.endpoint()->flush();
    for (size_t sender = place; sender < before.size(); sender += here.size()) {
      auto& in = c.links.endpoint()->receiveRing(before[sender], 0);
      while (!in.ready()) {
        c.failure.throwIfFailed();
        if (deadline.passed())
          base::fail(ErrorCode::Timeout, c.who.self(),
                     ": set-up timed out while waiting for a message of ",
                     c.who.name(before[sender]), " by ", c.links.endpoint()->name(before[sender]),
                     c.links.endpoint()->ways(before[sender]), c.links.network()->advice());
        if (!c.links.endpoint()->progress()) backoff.idle();
      }
      in.release();
    }
    c.links.endpoint()->flush();
  } catch (const transports::ConnectionLost& lost) {
    c.peers.cannotConnect(lost.peer(), Error(lost.code(), lost.how()));
  }
}

}  // namespace

void reachHosts(const Owners& c, base::Deadline deadline) {
  probeHosts(c, halfWayTo(deadline));
  c.peers.awaitReadiness(2, deadline);
  crossHosts(c, halfWayTo(deadline));
  c.peers.awaitReadiness(3, deadline);
}

}  // namespace tutti::communicator
