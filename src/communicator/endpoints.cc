#include "src/communicator/endpoints.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "transports/joined/endpoint.h"
#include "transports/shm/endpoint.h"

namespace tutti::communicator {

using topology::Topology;
using transports::RingLayout;

void requireTransport(const std::string& name) {
  TUTTI_REQUIRE(std::ranges::find(kTransports, name) != std::end(kTransports), "transport \"",
                base::printable(name), "\" is not shm, tcp, ucx, shm+tcp or shm+ucx");
}

namespace {

/// The network joins ranks of one host, too.
bool isNetwork(const std::string& transport) { return transport == "tcp" || transport == "ucx"; }

}  // namespace

bool needsNetwork(const Topology& topology, const std::string& transport) {
  return topology.ranks > 1 && (isNetwork(transport) || topology.hosts() > 1);
}

std::vector<bool> remotePeers(int rank, const Topology& topology, const std::string& transport) {
  std::vector<bool> remote(static_cast<size_t>(topology.ranks));
  const auto self = static_cast<size_t>(rank);
  for (size_t peer = 0; peer < remote.size(); ++peer)
    remote[peer] =
        peer != self && (isNetwork(transport) || topology.hostOf[peer] != topology.hostOf[self]);
  return remote;
}

// Rings of the network are made when they are used first, so they may be large.
transports::RingLayout layoutFor(const Topology& topology, const std::string& transport) {
  using transports::shm::chooseLayout;
  if (!needsNetwork(topology, transport)) return chooseLayout(topology.ranks, kChannels);
  const bool alone = isNetwork(transport) || topology.ranksPerHost() == 1;
  return chooseLayout(alone ? 2 : topology.ranksPerHost(), kNetworkChannels);
}

std::unique_ptr<transports::Endpoint> makeEndpoint(int rank, const Topology& topology,
                                                   const std::string& transport,
                                                   const std::shared_ptr<Network>& network,
                                                   const std::optional<RingLayout>& rings) {
  const int size = topology.ranks;
  const RingLayout layout = rings ? *rings : layoutFor(topology, transport);
  if (!needsNetwork(topology, transport))
    return transports::shm::makeShmEndpoint(rank, size, layout);
  if (transport == "shm")
    base::fail(ErrorCode::Unsupported, "transport shm joins ranks of one host, and these ", size,
               " are on ", topology.hosts());
  auto remote = network->makeEndpoint(rank, size, layout);
  if (isNetwork(transport) || topology.ranksPerHost() == 1) return remote;
  std::vector<int> numbers(static_cast<size_t>(size), transports::joined::kRemote);
  const int own = topology.hostOf[static_cast<size_t>(rank)];
  int next = 0;
  for (size_t r = 0; r < numbers.size(); ++r)
    if (topology.hostOf[r] == own) numbers[r] = next++;
  auto local = transports::shm::makeShmEndpoint(numbers[static_cast<size_t>(rank)], next, layout);
  return transports::joined::makeJoinedEndpoint(std::move(local), std::move(numbers),
                                                std::move(remote));
}

}  // namespace tutti::communicator
