#include "tests/executor/kernel/networks.h"

#include "tests/support/sim/endpoint.h"
#include "tests/transports/shm/fabrics.h"
#include "tests/transports/tcp/fabrics.h"
#include "tests/transports/ucx/fabrics.h"

namespace tutti::tests {
namespace {

RemoteNetwork of(std::shared_ptr<Fabric> fabric) {
  return [fabric](int ranks, const transports::RingLayout& layout) {
    return fabric->endpoints(ranks, layout);
  };
}

}  // namespace

RemoteNetwork simNetwork(const transports::sim::SimOptions& options) {
  return [options](int ranks, const transports::RingLayout& layout) {
    const auto network = std::make_shared<transports::sim::SimNetwork>(ranks, layout, options);
    std::vector<std::unique_ptr<transports::Endpoint>> all;
    for (int r = 0; r < ranks; ++r) all.push_back(transports::sim::makeSimEndpoint(network, r));
    return all;
  };
}

RemoteNetwork badSimNetwork(uint64_t seed) {
  return simNetwork({.seed = seed, .reorder = 0.1, .loss = 0.02, .duplicate = 0.02});
}

RemoteNetwork tcpNetwork() { return of(tcpThreads()); }
RemoteNetwork ucxNetwork() { return of(ucxThreads()); }
RemoteNetwork shmNetwork() { return of(shmThreads()); }

}  // namespace tutti::tests
