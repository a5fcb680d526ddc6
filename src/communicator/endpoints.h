#pragma once

// Which transport joins two ranks: shared memory on one host, the network between hosts, or the
// network everywhere when one is asked for.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/communicator/network.h"
#include "src/topology/topology.h"
#include "transports/connection.h"

namespace tutti::communicator {

/// Of the option and TUTTI_TRANSPORT. Empty: shared memory where it can be, else the network. With
/// a plus the second is the network.
inline constexpr const char* kTransports[] = {"", "shm", "tcp", "ucx", "shm+tcp", "shm+ucx"};
/// Throws InvalidArgument for another name.
void requireTransport(const std::string& name);

/// Whether ranks so placed need the network.
bool needsNetwork(const topology::Topology& topology, const std::string& transport);

/// By peer: whether `rank` has no other way to it than the network.
std::vector<bool> remotePeers(int rank, const topology::Topology& topology,
                              const std::string& transport);

/// Channels that endpoints are made with: a double tree needs two. Between hosts a link that waits
/// for what is yet to be worked on is idle, so that plans of several lanes are worth it.
inline constexpr int kChannels = 2, kNetworkChannels = 4;

/// The rings of a communicator of more than one rank so placed.
transports::RingLayout layoutFor(const topology::Topology& topology, const std::string& transport);

/// The endpoint of `rank`, with rings as layoutFor() has them, or others; `network` is null where
/// nobody needs the network. Throws Unsupported when `transport` is "shm" and the ranks are on
/// several hosts.
std::unique_ptr<transports::Endpoint> makeEndpoint(
    int rank, const topology::Topology& topology, const std::string& transport,
    const std::shared_ptr<Network>& network,
    const std::optional<transports::RingLayout>& rings = std::nullopt);

}  // namespace tutti::communicator
