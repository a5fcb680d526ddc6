// Making a communicator: settings, the exchange of addresses over the control plane, and its end.

#include <algorithm>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/printable.h"
#include "src/base/process.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/state.h"
#include "src/device/cuda.h"

namespace tutti {

using transports::Address;

Communicator::Impl::Impl(Membership membership, const Settings& chosen)
    : who(std::move(membership)),
      settings(chosen),
      size(who.size()),
      links(who, settings),
      children(who.id()),
      peers(static_cast<size_t>(size)) {}

void Communicator::Impl::requirePossible() {
  if (settings.device.kind == DeviceKind::Cuda)
    device::requireCudaDevice(settings.device.index);
  else
    TUTTI_REQUIRE(settings.device == Device{}, "there is no device ", toString(settings.device));
  // Unknown algorithms are refused now, not at the first call.
  choose({.collective = plan::Collective::Barrier});
}

Communicator::Impl::~Impl() {
  if (who.inForkedChild()) return;  // nobody is told
  if (!listening) return;           // nobody has heard of it
  finishGpu();
  const auto hasFailed = [this] { return failed.load(std::memory_order_acquire); };
  if (links.endpoint() && !hasFailed()) links.endpoint()->drain(hasFailed);
  std::optional<Error> reason;
  {
    std::lock_guard lock(mutex);
    reason = failure;
  }
  // A failure is repeated, so that nobody hears of this rank's leaving before he hears of its
  // reason. The others need the goodbye too: who has left is not waited for when they shrink.
  if (reason) tellFailure(*reason);
  if (links.endpoint() && hasFailed()) links.endpoint()->abandon();
  for (int peer = 0; peer < size; ++peer)
    if (peer != who.rank())
      send(peer, Message::Goodbye,
           base::ByteWriter()
               .put(collectivesDone.load(std::memory_order_relaxed))
               .put(gpu ? gpu->collectives() : uint64_t{0})
               .take());
  awaitGpuPeers();
  parkGpu();
  who.control().ignore(who.id());
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
    ranks[i]->links.use(std::move(endpoints[i]));
    ranks[i]->who.control().listen(ranks[i]->who.id(), ranks[i].get());
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
      if (peer != who.rank() && !arrived(peers[peer])) return peer;
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
    base::fail(ErrorCode::PeerLost, who.name(leaver()), " left during set-up, before its ", what,
               " came to ", who.self());
  if (!done)
    base::fail(ErrorCode::Timeout, who.self(), ": set-up timed out while waiting for the ", what,
               " of ", who.name(missing()));
}

// A rank that is gone cannot be connected to; the news of it may come a moment later.
void Communicator::Impl::cannotConnect(int peer, const Error& why) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, kDeathIsKnown, [&] { return failure || peers[peer].left; });
  if (failure) throw Error(*failure);
  if (peers[peer].left)
    base::fail(ErrorCode::PeerLost, who.name(peer), " left during set-up, before ", who.self(),
               " had connected to it");
  base::fail(why.code(), who.self(), " cannot connect to ", who.name(peer), ": ", why.what());
}

void Communicator::Impl::awaitReadiness(int times, base::Deadline deadline) {
  for (int peer = 0; peer < size; ++peer)
    if (peer != who.rank()) send(peer, Message::Ready, {});
  awaitAll("readiness", deadline, [times](const Peer& p) { return p.ready >= times; });
}

void Communicator::Impl::refuse(const Error& why) {
  const Error named(why.code(), who.self() + ": " + why.what());
  tellFailure(named);
  throw named;
}

void Communicator::Impl::connect(base::Deadline deadline) {
  try {
    requirePossible();
  } catch (const Error& e) {
    refuse(e);
  }
  who.control().listen(who.id(), this);
  listening = true;
  for (int rank = 0; rank < size; ++rank) links.limitCores(who.info(rank).cores);
  try {
    makeGpu();
    std::vector<Address> gpus(static_cast<size_t>(size));
    if (size == 1) return joinGpus(gpus, deadline);
    const bool networked = communicator::needsNetwork(links.topology(), settings.transport);
    links.use(communicator::makeEndpoint(who.rank(), links.topology(), settings.transport,
                                         networked ? links.network() : nullptr));
    for (int peer = 0; peer < size; ++peer) {
      if (peer == who.rank()) continue;
      Address address = links.endpoint()->address(peer);
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
      if (peer == who.rank()) continue;
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
        base::fail(e.code(), who.name(peer), " sent a malformed hello: ", e.what());
      }
      if (hello.wishes() != Hello::of(settings).wishes())
        base::fail(ErrorCode::Mismatch, "ranks disagree about a communicator: ", who.name(peer),
                   " asks for ", hello.wishes(), "; ", who.self(), " for ",
                   Hello::of(settings).wishes());
      gpus[peer].blob = std::move(hello.gpu);
      if (hello.gpuDescriptors > message.descriptors.size())
        base::fail(ErrorCode::Refused, who.name(peer), " sent ", message.descriptors.size(),
                   " descriptors, of which ", hello.gpuDescriptors, " are of its GPU");
      const auto ofGpu = message.descriptors.end() - static_cast<ptrdiff_t>(hello.gpuDescriptors);
      std::move(ofGpu, message.descriptors.end(), std::back_inserter(gpus[peer].descriptors));
      message.descriptors.erase(ofGpu, message.descriptors.end());
      try {
        links.endpoint()->connect(peer, {std::move(hello.address), std::move(message.descriptors)});
      } catch (const Error& e) {
        cannotConnect(peer, e);
      }
    }
    joinGpus(gpus, deadline);
    choices.clear();  // made before the tuning table was known
    awaitReadiness(1, deadline);
    if (size != who.control().size() || links.topology().hosts() == 1) return;
    reachHosts(deadline);
  } catch (const Error& e) {
    fail(e, true);
    throw;
  }
}

}  // namespace tutti
