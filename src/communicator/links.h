#pragma once

// RankLinks: how a rank reaches the others with data of the host. It owns the topology, the
// endpoint and the ranks of other hosts that this rank probes. Set-up writes it, on the thread that
// connects, before the first operation; from then on operations and the monitor's thread read it,
// and what they read is constant. The endpoint itself belongs to the operation that has its turn;
// of the monitor's thread it knows probe() and ways() only.

#include <memory>
#include <string>
#include <vector>

#include <tutti/error.h>

#include "src/communicator/failure/network_watch.h"
#include "src/communicator/membership.h"
#include "src/communicator/network.h"
#include "src/communicator/settings.h"
#include "src/topology/topology.h"
#include "transports/connection.h"

namespace tutti::communicator {

class RankLinks {
 public:
  RankLinks(const Membership& who, const Settings& settings);

  const topology::Topology& topology() const { return topology_; }
  /// As Topology::oversubscribed() has it; every call asks.
  bool sharesCores() const { return ranksPerHost_ > topology_.cores; }
  transports::Endpoint* endpoint() const { return endpoint_.get(); }  ///< null when alone
  /// Whether the ranks of this rank's host read each other's memory.
  bool attached() const { return attached_; }
  /// Ranks of other hosts whose addresses this one looks after.
  const std::vector<int>& probed() const { return visited_; }
  /// By which transport this rank reaches other hosts.
  const std::string& networkName() const { return networkName_; }
  /// By what this rank reaches other hosts. Throws with this rank's name.
  std::shared_ptr<Network> network() const;
  /// That these two do not reach each other any more.
  Error cut(const NetworkWatch::Cut& cut, const std::string& during) const;

  // Set-up.
  /// The cores of a rank's host are these, where others have told more.
  void limitCores(int cores);
  void use(std::unique_ptr<transports::Endpoint> endpoint);
  /// The ranks of this rank's host read each other's memory.
  void attach();

 private:
  const Membership& who_;
  const Settings& settings_;
  topology::Topology topology_;
  int ranksPerHost_ = 1;
  bool attached_ = false;
  std::vector<int> visited_;
  const std::string networkName_;
  std::unique_ptr<transports::Endpoint> endpoint_;
};

/// Of all of up to 17 hosts, and of those that are 10, 12, ..., each time about an eighth more,
/// away in either direction, the ranks that have this one's place there, counted again from the
/// first of the host that has fewer. So each rank is probed from all of these hosts.
std::vector<int> ranksToProbe(const topology::Topology& topology, int rank);

/// In order.
std::vector<int> ranksOfHost(const topology::Topology& topology, int host);

}  // namespace tutti::communicator
