#include "src/communicator/setup.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/failure/failure_state.h"
#include "src/communicator/gpu/gpu_backend.h"
#include "src/communicator/gpu/gpu_setup.h"
#include "src/communicator/host/host_backend.h"
#include "src/communicator/links.h"
#include "src/communicator/messages.h"
#include "src/communicator/peers.h"
#include "src/device/cuda.h"

namespace tutti::communicator {

using message::HelloMessage;
using transports::EndpointAddress;

void requirePossible(const Owners& c) {
  const Device device = c.settings.device;
  if (device.kind == DeviceKind::Cuda)
    device::requireCudaDevice(device.index);
  else
    TUTTI_REQUIRE(device == Device{}, "there is no device ", toString(device));
  // Unknown algorithms are refused now, not at the first call.
  c.host.choose({.collective = plan::Collective::Barrier});
}

namespace {

void sendHello(const Owners& c, int peer) {
  EndpointAddress address = c.links.endpoint()->address(peer);
  HelloMessage hello = HelloMessage::of(c.settings, c.links.networkName());
  hello.tuning = c.settings.tuning.serialize();
  hello.address = std::move(address.blob);
  std::vector<base::FileDescriptor> descriptors = std::move(address.descriptors);
  if (GpuJoin* const join = c.gpu.join()) {
    EndpointAddress onGpu = join->address(peer);
    hello.gpu = std::move(onGpu.blob);
    hello.gpuDescriptors = static_cast<uint32_t>(onGpu.descriptors.size());
    std::ranges::move(onGpu.descriptors, std::back_inserter(descriptors));
  }
  c.messages.send(peer, hello, std::move(descriptors));
}

/// Rank 0's brings the tuning.
HelloMessage readHello(const Owners& c, int peer, const base::Bytes& payload, Settings& settings) {
  try {
    HelloMessage hello = HelloMessage::read(payload);
    if (peer == 0) {
      settings.tuning = topology::Tuning::deserialize(hello.tuning);
      collectives::requirePreferences(settings.tuning);
    }
    return hello;
  } catch (const Error& e) {
    base::fail(e.code(), c.who.name(peer), " sent a malformed hello: ", e.what());
  }
}

void requireAgreement(const Owners& c, int peer, const HelloMessage& theirs,
                      const HelloMessage& own) {
  if (theirs.wishes() != own.wishes())
    base::fail(ErrorCode::Mismatch, "ranks disagree about a communicator: ", c.who.name(peer),
               " asks for ", theirs.wishes(), "; ", c.who.self(), " for ", own.wishes());
  if (theirs.algorithmFile != own.algorithmFile)
    base::fail(ErrorCode::Mismatch, "ranks disagree about the algorithm file, whose plan must be ",
               "the same on all ranks: ", c.who.name(peer), " has ", theirs.algorithmFileText(),
               "; ", c.who.self(), " has ", own.algorithmFileText());
}

/// Connects to a peer that has sent its hello. Its GPU's address.
EndpointAddress meet(const Owners& c, int peer, Settings& settings) {
  bootstrap::ControlMessage message = c.peers.takeHello(peer);
  HelloMessage hello = readHello(c, peer, message.payload, settings);
  requireAgreement(c, peer, hello, HelloMessage::of(settings, c.links.networkName()));
  if (hello.gpuDescriptors > message.descriptors.size())
    base::fail(ErrorCode::Refused, c.who.name(peer), " sent ", message.descriptors.size(),
               " descriptors, of which ", hello.gpuDescriptors, " are of its GPU");
  EndpointAddress ofGpu{std::move(hello.gpu), {}};
  const auto first = message.descriptors.end() - static_cast<ptrdiff_t>(hello.gpuDescriptors);
  std::move(first, message.descriptors.end(), std::back_inserter(ofGpu.descriptors));
  message.descriptors.erase(first, message.descriptors.end());
  try {
    c.links.endpoint()->connect(peer, {std::move(hello.address), std::move(message.descriptors)});
  } catch (const Error& e) {
    c.peers.cannotConnect(peer, e);
  }
  return ofGpu;
}

/// The other ranks of this one's host.
std::vector<int> neighbours(const Owners& c) {
  const topology::Topology& topology = c.links.topology();
  const int self = c.who.rank();
  std::vector<int> ranks = ranksOfHost(topology, topology.hostOf[static_cast<size_t>(self)]);
  std::erase(ranks, self);
  return ranks;
}

bool readsNeighbours(const Owners& c) {
  return std::ranges::all_of(neighbours(c),
                             [&](int peer) { return c.links.endpoint()->readsMemory(peer); });
}

/// What all ranks of this host can do, or not all.
void noteMemory(const Owners& c, bool allRead) {
  if (neighbours(c).empty()) return;
  if (allRead) c.links.attach();
  base::log(LogLevel::Debug, c.who.self(), ": ranks of this host ", allRead ? "" : "do not ",
            "read each other's memory");
}

/// Waits for all.
void becomeReady(const Owners& c, base::Deadline deadline) {
  const bool reads = readsNeighbours(c);
  c.peers.awaitReadiness(1, deadline, reads);
  noteMemory(c, reads && std::ranges::all_of(neighbours(c),
                                             [&](int peer) { return c.peers.readsMemory(peer); }));
}

}  // namespace

void connect(const Owners& c, Settings& settings, base::Deadline deadline) {
  const int size = c.who.size();
  for (int rank = 0; rank < size; ++rank) c.links.limitCores(c.who.info(rank).cores);
  makeGpu(c);
  std::vector<EndpointAddress> gpus(static_cast<size_t>(size));
  if (size == 1) return joinGpus(c, gpus, deadline);
  const bool networked = needsNetwork(c.links.topology(), settings.transport);
  c.links.use(makeEndpoint(c.who.rank(), c.links.topology(), settings.transport,
                           networked ? c.links.network() : nullptr));
  for (int peer = 0; peer < size; ++peer)
    if (peer != c.who.rank()) sendHello(c, peer);
  c.peers.awaitAll("address", deadline, [](const Peers::Peer& p) { return p.hello.has_value(); });
  for (int peer = 0; peer < size; ++peer)
    if (peer != c.who.rank()) gpus[peer] = meet(c, peer, settings);
  joinGpus(c, gpus, deadline);
  becomeReady(c, deadline);
  c.host.connected();
  if (size != c.who.control().size() || c.links.topology().hosts() == 1) return;
  reachHosts(c, deadline);
}

void connectLocal(std::span<const Owners* const> ranks) {
  const bool allRead =
      std::ranges::all_of(ranks, [](const Owners* rank) { return readsNeighbours(*rank); });
  for (const Owners* rank : ranks) {
    noteMemory(*rank, allRead);
    rank->host.connected();
  }
  try {
    joinLocalGpus(ranks);
  } catch (const std::exception& error) {  // what waits on GPUs ends
    const auto* const own = dynamic_cast<const Error*>(&error);
    const Error failure = own != nullptr ? *own : Error(ErrorCode::System, error.what());
    for (const Owners* rank : ranks) rank->failure.fail(failure, false);
    throw;
  }
}

}  // namespace tutti::communicator
