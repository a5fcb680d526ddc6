#include "src/communicator/gpu/gpu_setup.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/gpu/gpu_backend.h"
#include "src/communicator/gpu/gpu_parking.h"
#include "src/communicator/links.h"
#include "src/communicator/messages.h"
#include "src/communicator/peers.h"

namespace tutti::communicator {

void makeGpu(const Owners& c) {
  const Settings& settings = c.settings;
  if (settings.device.kind != DeviceKind::Cuda)
    return c.gpu.refuseCalls("it is of " + toString(settings.device));
  const int own = c.who.rank(), size = c.who.size();
  const auto isRemote = remotePeers(own, c.links.topology(), settings.transport);
  const bool isAlone = std::ranges::none_of(isRemote, std::identity());
  bool othersAreLocal = false;
  for (int peer = 0; peer < size; ++peer)
    othersAreLocal |= !isRemote[peer] && c.who.info(peer).pid != ::getpid();
  GpuParking::ofProcess().sweep();
  c.gpu.use(makeGpuJoin(
      {.device = settings.device,
       .rank = own,
       .size = size,
       .timeoutMs = settings.timeoutMs,
       .mostBlocks = settings.gpuBlocks,
       .byCopies = settings.gpuCopies,
       .hasOtherProcesses = othersAreLocal,
       .isRemote = isRemote,
       .reachesGpus = !isAlone && c.links.network()->canReachGpus(settings.gpuDirect),
       .makeRemote = [&links = c.links, own, size](const transports::RingLayout& layout) {
         return links.network()->makeEndpoint(own, size, layout);
       }}));
}

namespace {

// The peer's memory is not there any more where it has failed meanwhile.
void connectTo(const Owners& c, int peer, const std::function<void()>& connect) {
  try {
    connect();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::Refused) throw;
    c.peers.cannotConnect(peer, e);
  }
}

/// False where not all ranks have an address.
bool connect(const Owners& c, const std::vector<transports::EndpointAddress>& addresses) {
  GpuJoin* const join = c.gpu.join();
  if (!join) return false;
  for (int peer = 0; peer < c.who.size(); ++peer)
    if (peer != c.who.rank() && addresses[peer].blob.empty()) {
      c.gpu.refuseCalls("rank " + std::to_string(peer) + " has no GPU");
      return false;
    }
  for (int peer = 0; peer < c.who.size(); ++peer)
    if (peer != c.who.rank()) connectTo(c, peer, [&] { join->connect(peer, addresses[peer]); });
  return true;
}

void tellState(const Owners& c, size_t round, base::Deadline deadline) {
  GpuJoin& join = *c.gpu.join();
  for (int peer = 0; peer < c.who.size(); ++peer)
    if (peer != c.who.rank())
      c.messages.send(peer, message::GpuMessage{join.state()}, join.descriptors(peer));
  c.peers.awaitAll("GPU's state", deadline,
                   [&](const Peers::Peer& p) { return p.gpu.size() > round; });
  for (int peer = 0; peer < c.who.size(); ++peer) {
    if (peer == c.who.rank()) continue;
    const ToldGpuState theirs = c.peers.takeGpuState(peer, round);
    connectTo(c, peer, [&] { join.hear(peer, theirs); });
  }
}

/// Whether nobody has a fault.
bool tellStatesOf(std::span<const Owners* const> ranks) {
  std::vector<GpuState> states;
  for (const Owners* rank : ranks) states.push_back(rank->gpu.join()->state());
  for (const Owners* rank : ranks)
    for (int peer = 0; peer < rank->who.size(); ++peer)
      if (peer != rank->who.rank()) rank->gpu.join()->hear(peer, {states[peer]});
  bool good = true;
  for (const Owners* rank : ranks) good &= rank->gpu.isFaultless();
  return good;
}

}  // namespace

void joinGpus(const Owners& c, const std::vector<transports::EndpointAddress>& addresses,
              base::Deadline deadline) {
  if (!connect(c, addresses)) return;
  size_t round = 0;
  const auto tell = [&] { tellState(c, round++, deadline); };
  tell();
  if (!c.gpu.isFaultless()) return;
  GpuJoin& join = *c.gpu.join();
  const bool byCopies = join.state().byCopies;
  const auto probe = [&] {
    join.startProbe();
    if (byCopies) tell();  // what this rank has copied is there
    join.finishProbe();
    tell();
    return c.gpu.isFaultless();
  };
  // Addresses, and then what has come of them.
  const auto exchange = [&] {
    tell();
    tell();
    return c.gpu.isFaultless();
  };
  if (byCopies) {
    join.rejoin();
    if (!exchange()) return;
  }
  if (!probe()) return;
  if (join.hasPairsApart()) {
    join.joinByHost();
    if (!exchange() || !probe()) return;
  }
  c.gpu.makeReady();
}

void joinLocalGpus(std::span<const Owners* const> ranks) {
  for (const Owners* rank : ranks) makeGpu(*rank);
  bool joined = true;
  for (const Owners* rank : ranks) {
    std::vector<transports::EndpointAddress> addresses(ranks.size());
    for (size_t peer = 0; peer < ranks.size(); ++peer)
      if (GpuJoin* const join = ranks[peer]->gpu.join(); ranks[peer] != rank && join)
        addresses[peer] = join->address(rank->who.rank());
    joined &= connect(*rank, addresses);
  }
  if (!joined || !tellStatesOf(ranks)) return;
  const auto exchange = [&] {
    tellStatesOf(ranks);
    return tellStatesOf(ranks);
  };
  const auto probe = [&] {
    for (const Owners* rank : ranks) rank->gpu.join()->startProbe();
    for (const Owners* rank : ranks) rank->gpu.join()->finishProbe();
    return tellStatesOf(ranks);
  };
  const GpuJoin& first = *ranks.front()->gpu.join();
  if (ranks.front()->gpu.join()->state().byCopies) {
    for (const Owners* rank : ranks) rank->gpu.join()->rejoin();
    if (!exchange()) return;
  }
  if (!probe()) return;
  if (first.hasPairsApart()) {
    for (const Owners* rank : ranks) rank->gpu.join()->joinByHost();
    if (!exchange() || !probe()) return;
  }
  for (const Owners* rank : ranks) rank->gpu.makeReady();
}

}  // namespace tutti::communicator
