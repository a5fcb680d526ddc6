// Making a communicator: settings, the exchange of addresses over the control plane, and its end.

#include <algorithm>
#include <cstdlib>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/base/env.h"
#include "src/base/log.h"
#include "src/base/printable.h"
#include "src/base/process.h"
#include "src/communicator/state.h"
#include "src/device/cuda.h"
#include "src/topology/distance.h"
#include "src/topology/read_machine.h"
#include "transports/ucx/rdma_devices.h"
#include "transports/ucx/settings.h"

namespace tutti {

namespace communicator {

World::World(std::shared_ptr<bootstrap::ControlPlane> plane, std::shared_ptr<SharedWindows> shared)
    : control(std::move(plane)),
      windows(std::make_unique<WindowTable>(*control, std::move(shared))) {}

World::~World() {
  if (guard.inForkedChild()) {
    base::abandon(std::move(windows));
    return;
  }
  control->leave();
  windows.reset();
}

LocalRank LocalRank::of(int rank, const topology::Topology& topology, Device device) {
  const auto& hosts = topology.hostOf;
  const auto own = hosts.begin() + rank;
  LocalRank local{.place = static_cast<int>(std::count(hosts.begin(), own, *own)),
                  .ranks = static_cast<int>(std::ranges::count(hosts, *own))};
  if (device.kind == DeviceKind::Cuda) local.gpu = device.index;
  return local;
}

transports::ucx::WorkerOptions workerOptions(const LocalRank& rank,
                                             const std::function<topology::Machine()>& read) {
  if (std::getenv("UCX_NET_DEVICES")) return {};
  std::string device = topology::nearDevice(read(), rank.place, rank.ranks, rank.gpu);
  if (!device.empty())
    base::log(LogLevel::Debug, "rank ", rank.place, " of this host's ", rank.ranks, " uses ",
              device);
  return {.devices = std::move(device)};
}

namespace {

/// Where RDMA is not used: the interface by which the control plane reaches other hosts. UCX
/// would take the fastest one, which may be a bridge that leads nowhere.
transports::ucx::WorkerOptions byInterface(const std::string& interface) {
  if (std::getenv("UCX_NET_DEVICES")) return {};
  const base::Env& env = base::lenientEnv();
  return {.devices = interface.substr(0, interface.find(':')),  // "eth0:1" is another address
          .chosenBy = !env.interface.empty()          ? "TUTTI_INTERFACE=" + env.interface
                      : !env.socketInterfaces.empty() ? "NCCL_SOCKET_IFNAME=" + env.socketInterfaces
                                                      : ""};
}

/// RDMA devices that UCX may use. To read a machine takes longer than this.
size_t nicCount() {
  using namespace transports::ucx;
  return allowsRdma(usersSetting("UCX_TLS")) ? usableRdmaDevices().size() : 0;
}

}  // namespace

std::shared_ptr<transports::ucx::Worker> World::network(const LocalRank& rank) {
  std::lock_guard lock(mutex_);
  if (network_) return network_;
  transports::ucx::WorkerOptions options;  // with one RDMA device UCX chooses
  if (const auto nics = nicCount(); nics == 0)
    options = byInterface(control->peer(control->rank()).interface);
  else if (nics > 1)
    options = workerOptions(rank, [] { return topology::readMachine(); });
  const std::string& host = control->peer(control->rank()).bootId;
  for (int other = 0; other < control->size(); ++other)
    options.betweenHosts |= control->peer(other).bootId != host;
  network_ = transports::ucx::makeWorker(options);
  return network_;
}

topology::Tuning ownTuning() {
  const std::string& file = base::env().tuning;
  if (file.empty()) return {};
  return collectives::readTuning(file);
}

int64_t setupTimeoutOf(const CommunicatorOptions& options) {
  const int64_t given = options.setupTimeout.count();
  return std::min<int64_t>(given > 0 ? given : base::lenientEnv().setupTimeoutMs,
                           base::kLongestWait.count());
}

Settings Settings::from(const CommunicatorOptions& options) {
  const base::Env& env = base::env();
  TUTTI_REQUIRE(options.timeout.count() >= 0 && options.setupTimeout.count() >= 0 &&
                    options.straggler.count() >= 0,
                "timeouts are not negative: timeout ", options.timeout.count(), " ms, set-up ",
                options.setupTimeout.count(), " ms, straggler ", options.straggler.count(), " ms");
  TUTTI_REQUIRE(options.gpuBlocks >= 0, "gpuBlocks is ", options.gpuBlocks, ", not 0 or more");
  const auto choose = [](int64_t given, int64_t fallback) {
    return std::min<int64_t>(given ? given : fallback, base::kLongestWait.count());
  };
  const std::string& transport = options.transport.empty() ? env.transport : options.transport;
  requireTransport(transport);
  return {.setupTimeoutMs = setupTimeoutOf(options),
          .timeoutMs = choose(options.timeout.count(), env.timeoutMs),
          .stragglerMs = choose(options.straggler.count(), env.stragglerMs),
          .deterministic = options.deterministic || env.deterministic,
          .algorithm = options.algorithm.empty() ? env.algorithm : options.algorithm,
          .transport = transport,
          .device = options.device,
          .gpuBlocks = static_cast<uint32_t>(options.gpuBlocks ? options.gpuBlocks : env.gpuBlocks),
          .gpuCopies = options.gpuCopies || env.gpuCopies,
          .gpuDirect = env.gpuDirect};
}

}  // namespace communicator

using transports::Address;

Communicator::Impl::Impl(Membership membership, const Settings& chosen)
    : who(std::move(membership)),
      settings(chosen),
      size(static_cast<int>(who.members.size())),
      peers(who.members.size()) {
  topology.ranks = size;
  topology.cores = who.world->control->peer(who.members[who.rank]).cores;
  std::map<std::string, int> hosts;
  for (const int member : who.members) {
    const std::string& host = who.world->control->peer(member).bootId;
    topology.hostOf.push_back(
        hosts.try_emplace(host, static_cast<int>(hosts.size())).first->second);
  }
  visited = ranksToVisit();
}

void Communicator::Impl::requirePossible() {
  if (settings.device.kind == DeviceKind::Cuda)
    device::requireCudaDevice(settings.device.index);
  else
    TUTTI_REQUIRE(settings.device == Device{}, "there is no device ", toString(settings.device));
  // Unknown algorithms are refused now, not at the first call.
  choose({.collective = plan::Collective::Barrier});
}

Communicator::Impl::~Impl() {
  if (inForkedChild()) return;  // nobody is told
  if (!listening) return;       // nobody has heard of it
  finishGpu();
  const auto hasFailed = [this] { return failed.load(std::memory_order_acquire); };
  if (endpoint && !hasFailed()) endpoint->drain(hasFailed);
  std::optional<Error> reason;
  {
    std::lock_guard lock(mutex);
    reason = failure;
  }
  // A failure is repeated, so that nobody hears of this rank's leaving before he hears of its
  // reason. The others need the goodbye too: who has left is not waited for when they shrink.
  if (reason) tellFailure(*reason);
  if (endpoint && hasFailed()) endpoint->abandon();
  for (int peer = 0; peer < size; ++peer)
    if (peer != who.rank)
      send(peer, Message::Goodbye,
           base::ByteWriter()
               .put(collectivesDone.load(std::memory_order_relaxed))
               .put(gpu ? gpu->collectives() : uint64_t{0})
               .take());
  awaitGpuPeers();
  parkGpu();
  who.world->control->ignore(who.id);
}

void Communicator::Impl::connectLocal(
    const std::vector<std::shared_ptr<Impl>>& ranks,
    std::vector<std::unique_ptr<transports::Endpoint>> endpoints) {
  const int size = static_cast<int>(ranks.size());
  for (const auto& rank : ranks) rank->requirePossible();
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < size; ++j)
      if (i != j) endpoints[i]->connect(j, endpoints[j]->address(i));
  for (int i = 0; i < size; ++i) {
    ranks[i]->topology.slotBytes = endpoints[i]->layout().slotBytes;
    ranks[i]->topology.channels = endpoints[i]->layout().channels;
    ranks[i]->endpoint = std::move(endpoints[i]);
    ranks[i]->who.world->control->listen(ranks[i]->who.id, ranks[i].get());
    ranks[i]->listening = true;
  }
  try {
    joinLocalGpus(ranks);
  } catch (const std::exception& error) {  // what waits on GPUs ends
    const auto* const own = dynamic_cast<const Error*>(&error);
    const Error failure = own != nullptr ? *own : Error(ErrorCode::System, error.what());
    for (const auto& rank : ranks) rank->fail(failure, false);
    throw;
  }
}

namespace {

// Within this time the death of a rank of this host is known to all.
constexpr std::chrono::seconds kDeathIsKnown{1};

// No algorithm or transport has a longer name; what a peer sends goes into messages.
constexpr size_t kMaxNameBytes = 64;

// What must be equal on all ranks, beside the addresses.
struct Hello {
  bool deterministic = false;
  std::string algorithm;
  std::string transport;
  base::Bytes tuning;  // rank 0's counts
  base::Bytes address;
  base::Bytes gpu;              // its address for the peer; empty without one
  uint32_t gpuDescriptors = 0;  // of that address, the last of all

  base::Bytes write() const {
    return base::ByteWriter()
        .put(deterministic)
        .put(algorithm)
        .put(transport)
        .put(tuning)
        .put(address)
        .put(gpu)
        .put(gpuDescriptors)
        .take();
  }
  static Hello of(const communicator::Settings& settings) {
    return {settings.deterministic, settings.algorithm, settings.transport, {}, {}, {}, 0};
  }
  std::string wishes() const {
    return base::message("deterministic=", int{deterministic}, " algorithm='",
                         base::printable(algorithm), "' transport='", base::printable(transport),
                         "'");
  }
  static Hello read(const base::Bytes& bytes) {
    base::ByteReader in(bytes);
    Hello h;
    h.deterministic = in.getFlag("deterministic");
    h.algorithm = in.getString("algorithm", kMaxNameBytes);
    h.transport = in.getString("transport", kMaxNameBytes);
    h.tuning = in.getBytes("tuning");
    h.address = in.getBytes("address");
    h.gpu = in.getBytes("GPU's address");
    h.gpuDescriptors = in.get<uint32_t>("descriptors of the GPU's address");
    in.requireEnd();
    return h;
  }
};

}  // namespace

void Communicator::Impl::awaitAll(const char* what, base::Deadline deadline,
                                  const std::function<bool(const Peer&)>& arrived) {
  std::unique_lock lock(mutex);
  const auto missing = [&] {
    for (int peer = 0; peer < size; ++peer)
      if (peer != who.rank && !arrived(peers[peer])) return peer;
    return -1;
  };
  const auto leaver = [&] {  // will not arrive any more
    for (int peer = 0; peer < size; ++peer)
      if (peers[peer].left && !arrived(peers[peer])) return peer;
    return -1;
  };
  const bool done = changed.wait_for(lock, std::chrono::milliseconds(deadline.remainingMs()),
                                     [&] { return failure || missing() < 0 || leaver() >= 0; });
  if (failure) throw Error(*failure);
  if (leaver() >= 0)
    base::fail(ErrorCode::PeerLost, name(leaver()), " left during set-up, before its ", what,
               " came to ", self());
  if (!done)
    base::fail(ErrorCode::Timeout, self(), ": set-up timed out while waiting for the ", what,
               " of ", name(missing()));
}

std::shared_ptr<transports::ucx::Worker> Communicator::Impl::network() {
  try {
    return who.world->network(communicator::LocalRank::of(who.rank, topology, settings.device));
  } catch (const Error& e) {
    base::fail(e.code(), self(), ": ", e.what());
  }
}

// A rank that is gone cannot be connected to; the news of it may come a moment later.
void Communicator::Impl::cannotConnect(int peer, const Error& why) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, kDeathIsKnown, [&] { return failure || peers[peer].left; });
  if (failure) throw Error(*failure);
  if (peers[peer].left)
    base::fail(ErrorCode::PeerLost, name(peer), " left during set-up, before ", self(),
               " had connected to it");
  base::fail(why.code(), self(), " cannot connect to ", name(peer), ": ", why.what());
}

void Communicator::Impl::awaitReadiness(int times, base::Deadline deadline) {
  for (int peer = 0; peer < size; ++peer)
    if (peer != who.rank) send(peer, Message::Ready, {});
  awaitAll("readiness", deadline, [times](const Peer& p) { return p.ready >= times; });
}

void Communicator::Impl::refuse(const Error& why) {
  const Error named(why.code(), self() + ": " + why.what());
  tellFailure(named);
  throw named;
}

void Communicator::Impl::connect(base::Deadline deadline) {
  try {
    requirePossible();
  } catch (const Error& e) {
    refuse(e);
  }
  who.world->control->listen(who.id, this);
  listening = true;
  for (const int member : who.members)
    topology.cores = std::min(topology.cores, who.world->control->peer(member).cores);
  try {
    makeGpu();
    std::vector<Address> gpus(static_cast<size_t>(size));
    if (size == 1) return joinGpus(gpus, deadline);
    const bool networked = communicator::needsNetwork(topology, settings.transport);
    endpoint = communicator::makeEndpoint(who.rank, topology, settings.transport,
                                          networked ? network() : nullptr);
    topology.slotBytes = endpoint->layout().slotBytes;
    topology.channels = endpoint->layout().channels;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == who.rank) continue;
      Address address = endpoint->address(peer);
      Hello hello = Hello::of(settings);
      hello.tuning = settings.tuning.serialize();
      hello.address = std::move(address.blob);
      std::vector<base::FileDescriptor> descriptors = std::move(address.descriptors);
      if (gpu) {
        Address onGpu = gpu->address(peer);
        hello.gpu = std::move(onGpu.blob);
        hello.gpuDescriptors = static_cast<uint32_t>(onGpu.descriptors.size());
        std::ranges::move(onGpu.descriptors, std::back_inserter(descriptors));
      }
      send(peer, Message::Hello, hello.write(), std::move(descriptors));
    }
    awaitAll("address", deadline, [](const Peer& p) { return p.hello.has_value(); });
    for (int peer = 0; peer < size; ++peer) {
      if (peer == who.rank) continue;
      bootstrap::ControlMessage message;
      {
        std::lock_guard lock(mutex);
        message = std::move(*peers[peer].hello);
      }
      Hello hello;
      try {
        hello = Hello::read(message.payload);
        if (peer == 0) {
          settings.tuning = topology::Tuning::deserialize(hello.tuning);
          collectives::requirePreferences(settings.tuning);
        }
      } catch (const Error& e) {
        base::fail(e.code(), name(peer), " sent a malformed hello: ", e.what());
      }
      if (hello.wishes() != Hello::of(settings).wishes())
        base::fail(ErrorCode::Mismatch, "ranks disagree about a communicator: ", name(peer),
                   " asks for ", hello.wishes(), "; ", self(), " for ",
                   Hello::of(settings).wishes());
      gpus[peer].blob = std::move(hello.gpu);
      if (hello.gpuDescriptors > message.descriptors.size())
        base::fail(ErrorCode::Refused, name(peer), " sent ", message.descriptors.size(),
                   " descriptors, of which ", hello.gpuDescriptors, " are of its GPU");
      const auto ofGpu = message.descriptors.end() - static_cast<ptrdiff_t>(hello.gpuDescriptors);
      std::move(ofGpu, message.descriptors.end(), std::back_inserter(gpus[peer].descriptors));
      message.descriptors.erase(ofGpu, message.descriptors.end());
      try {
        endpoint->connect(peer, {std::move(hello.address), std::move(message.descriptors)});
      } catch (const Error& e) {
        cannotConnect(peer, e);
      }
    }
    joinGpus(gpus, deadline);
    choices.clear();  // made before the tuning table was known
    awaitReadiness(1, deadline);
    if (size != who.world->control->size() || topology.hosts() == 1) return;
    reachHosts(deadline);
  } catch (const Error& e) {
    fail(e, true);
    throw;
  }
}

}  // namespace tutti
