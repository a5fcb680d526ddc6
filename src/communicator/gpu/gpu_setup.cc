#include "src/communicator/gpu/gpu_setup.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <ranges>
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
  const auto isElsewhere = [&](int peer) {
    return !isRemote[peer] && c.who.info(peer).pid != ::getpid();
  };
  GpuParking::ofProcess().sweep();
  c.gpu.use(makeGpuSide(
      {.device = settings.device,
       .rank = own,
       .size = size,
       .timeoutMs = settings.timeoutMs,
       .mostBlocks = settings.gpuBlocks,
       .byCopies = settings.gpuCopies,
       .hasOtherProcesses = std::ranges::any_of(std::views::iota(0, size), isElsewhere),
       .isRemote = isRemote,
       .reachesGpus = !isAlone &&
                      settings.gpuDirect.value_or(transports::ucx::reachesGpus(*c.links.network())),
       .makeRemote = [&links = c.links, own, size](const transports::RingLayout& layout) {
         return transports::ucx::makeUcxEndpoint(links.network(), own, size, layout);
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
  GpuSide* const side = c.gpu.side();
  if (!side) return false;
  for (int peer = 0; peer < c.who.size(); ++peer)
    if (peer != c.who.rank() && addresses[peer].blob.empty()) {
      c.gpu.refuseCalls("rank " + std::to_string(peer) + " has no GPU");
      return false;
    }
  for (int peer = 0; peer < c.who.size(); ++peer)
    if (peer != c.who.rank()) connectTo(c, peer, [&] { side->connect(peer, addresses[peer]); });
  return true;
}

void tellState(const Owners& c, size_t round, base::Deadline deadline) {
  GpuSide& side = *c.gpu.side();
  for (int peer = 0; peer < c.who.size(); ++peer)
    if (peer != c.who.rank())
      c.messages.send(peer, message::GpuMessage{side.state()}, side.descriptors());
  c.peers.awaitAll("GPU's state", deadline,
                   [&](const Peers::Peer& p) { return p.gpu.size() > round; });
  for (int peer = 0; peer < c.who.size(); ++peer) {
    if (peer == c.who.rank()) continue;
    const ToldGpuState theirs = c.peers.takeGpuState(peer, round);
    connectTo(c, peer, [&] { side.hear(peer, theirs); });
  }
}

/// Whether nobody has a fault.
bool tellStatesOf(std::span<const Owners* const> ranks) {
  std::vector<GpuState> states;
  for (const Owners* rank : ranks) states.push_back(rank->gpu.side()->state());
  for (const Owners* rank : ranks)
    for (int peer = 0; peer < rank->who.size(); ++peer)
      if (peer != rank->who.rank()) rank->gpu.side()->hear(peer, {states[peer]});
  bool good = true;
  for (const Owners* rank : ranks) good &= rank->gpu.isFaultless();
  return good;
}

}  // namespace

void joinGpus(const Owners& c, const std::vector<transports::EndpointAddress>& addresses,
              base::Deadline deadline) {
  if (!connect(c, addresses)) return;
  tellState(c, 0, deadline);
  if (!c.gpu.isFaultless()) return;
  GpuSide& side = *c.gpu.side();
  const bool rejoins = side.byCopies();
  if (rejoins) {
    side.rejoin();
    for (const size_t round : {1, 2}) tellState(c, round, deadline);
    if (!c.gpu.isFaultless()) return;
  }
  side.startProbe();
  if (rejoins) tellState(c, 3, deadline);  // what this rank has copied is there
  side.finishProbe();
  tellState(c, rejoins ? 4 : 1, deadline);
  if (c.gpu.isFaultless()) side.makeReady();
}

void joinLocalGpus(std::span<const Owners* const> ranks) {
  for (const Owners* rank : ranks) makeGpu(*rank);
  bool joined = true;
  for (const Owners* rank : ranks) {
    std::vector<transports::EndpointAddress> addresses(ranks.size());
    for (size_t peer = 0; peer < ranks.size(); ++peer)
      if (GpuSide* const side = ranks[peer]->gpu.side(); ranks[peer] != rank && side)
        addresses[peer] = side->address(rank->who.rank());
    joined &= connect(*rank, addresses);
  }
  if (!joined || !tellStatesOf(ranks)) return;
  if (ranks.front()->gpu.side()->byCopies()) {
    for (const Owners* rank : ranks) rank->gpu.side()->rejoin();
    tellStatesOf(ranks);
    if (!tellStatesOf(ranks)) return;
  }
  for (const Owners* rank : ranks) rank->gpu.side()->startProbe();
  for (const Owners* rank : ranks) rank->gpu.side()->finishProbe();
  if (!tellStatesOf(ranks)) return;
  for (const Owners* rank : ranks) rank->gpu.side()->makeReady();
}

}  // namespace tutti::communicator
