// UniqueId's members, and the rendezvous that create() opens.

#include <tutti/communicator.h>

#include <array>
#include <list>
#include <mutex>
#include <optional>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/bootstrap/network_interface.h"
#include "src/bootstrap/rendezvous_server.h"

namespace tutti {
namespace {

using bootstrap::ExistingRanks;
using bootstrap::Meeting;
using bootstrap::Rendezvous;
using bootstrap::RendezvousServer;
using bootstrap::RendezvousThread;

/// Owns the rendezvous of this process's ids. They end when their job is complete or set-up
/// time is over, or when the process exits. All meet at one address, by one thread; those for this
/// host alone, and those for others too, at one each.
class OpenRendezvous {
 public:
  /// At a new address or at that of earlier ids, with a secret of its own.
  std::shared_ptr<RendezvousServer> open(const std::optional<wire::Address>& network,
                                         std::chrono::milliseconds lifetime,
                                         const ExistingRanks& existing) {
    std::lock_guard lock(mutex_);
    servers_.remove_if([](const auto& other) { return other->finished(); });
    std::weak_ptr<RendezvousThread>& known = threads_[network ? 1 : 0];
    auto thread = known.lock();
    std::shared_ptr<Meeting> meeting;
    if (thread && listensAt(*thread, network)) meeting = meetAt(*thread, lifetime, existing);
    if (!meeting || !thread->add(meeting)) {
      Rendezvous point = bootstrap::randomRendezvous();
      point.network = network;
      thread = std::make_shared<RendezvousThread>(point, RendezvousThread::Jobs::Many);
      meeting = meetAt(*thread, lifetime, existing);
      RendezvousThread::start(thread, meeting);
      known = thread;
    }
    servers_.push_back(std::make_shared<RendezvousServer>(thread, meeting));
    return servers_.back();
  }
  std::shared_ptr<RendezvousServer> of(const wire::JobId& job) {
    std::lock_guard lock(mutex_);
    for (const auto& server : servers_)
      if (server->point().credentials.job == job && !server->finished()) return server;
    return nullptr;
  }

 private:
  static bool listensAt(const RendezvousThread& thread,
                        const std::optional<wire::Address>& network) {
    return !network || thread.point().network->ip == network->ip;
  }
  static std::shared_ptr<Meeting> meetAt(const RendezvousThread& thread,
                                         std::chrono::milliseconds lifetime,
                                         const ExistingRanks& existing) {
    Rendezvous point = thread.point();
    point.credentials = bootstrap::randomRendezvous().credentials;
    return std::make_shared<Meeting>(point, thread.interface(), lifetime, existing);
  }

  std::mutex mutex_;
  std::array<std::weak_ptr<RendezvousThread>, 2> threads_;
  std::list<std::shared_ptr<RendezvousServer>> servers_;
};

OpenRendezvous& ofThisProcess() {
  static OpenRendezvous openOnes;
  return openOnes;
}

int digitValue(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

std::shared_ptr<RendezvousServer> bootstrap::rendezvousOpenedHere(const wire::JobId& job) {
  return ofThisProcess().of(job);
}

std::shared_ptr<RendezvousServer> bootstrap::openRendezvous(UniqueId::Reach reach,
                                                            std::chrono::milliseconds lifetime,
                                                            const ExistingRanks& existing) {
  std::optional<wire::Address> network;
  if (reach == UniqueId::Reach::Network)
    if (const auto interface = networkInterface()) network = interface->address;
  OpenRendezvous& openOnes = ofThisProcess();  // before the server's thread logs anything
  try {
    return openOnes.open(network, lifetime, existing);
  } catch (const Error& error) {
    const base::Env& env = base::env();
    if (!network || !env.interface.empty() || !env.socketInterfaces.empty()) throw;
    base::log(LogLevel::Info, "this id is good on this host only: ", error.what());
    return openOnes.open(std::nullopt, lifetime, existing);
  }
}

UniqueId UniqueId::create(Reach reach) {
  const std::chrono::milliseconds lifetime(base::env().setupTimeoutMs);
  return bootstrap::encode(bootstrap::openRendezvous(reach, lifetime)->point());
}

std::string UniqueId::toHex() const { return base::hex(bytes); }

UniqueId UniqueId::fromHex(const std::string& hex) {
  UniqueId id;
  TUTTI_REQUIRE(hex.size() == 2 * id.bytes.size(), "a unique id has ", 2 * id.bytes.size(),
                " hexadecimal digits, not ", hex.size());
  for (size_t i = 0; i < hex.size(); ++i) {
    const int value = digitValue(hex[i]);
    TUTTI_REQUIRE(value >= 0, "character ", i, " of a unique id is not a hexadecimal digit");
    id.bytes[i / 2] = (id.bytes[i / 2] << 4) | static_cast<std::byte>(value);
  }
  bootstrap::decode(id);
  return id;
}

}  // namespace tutti
