// UniqueId's members, and the rendezvous that create() opens.

#include <tutti/communicator.h>

#include <list>
#include <mutex>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/bootstrap/network_interface.h"
#include "src/bootstrap/rendezvous_server.h"

namespace tutti {
namespace {

using bootstrap::RendezvousServer;

/// Owns the rendezvous of this process's ids. They end when their job is complete or set-up
/// time is over, or when the process exits.
class OpenRendezvous {
 public:
  void add(std::shared_ptr<RendezvousServer> server) {
    std::lock_guard lock(mutex_);
    servers_.remove_if([](const auto& other) { return other->finished(); });
    servers_.push_back(std::move(server));
  }
  std::shared_ptr<RendezvousServer> of(const wire::JobId& job) {
    std::lock_guard lock(mutex_);
    for (const auto& server : servers_)
      if (server->point().credentials.job == job && !server->finished()) return server;
    return nullptr;
  }

 private:
  std::mutex mutex_;
  std::list<std::shared_ptr<RendezvousServer>> servers_;
};

OpenRendezvous& openRendezvous() {
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
  return openRendezvous().of(job);
}

UniqueId UniqueId::create(Reach reach) {
  bootstrap::Rendezvous point = bootstrap::randomRendezvous();
  if (reach == Reach::Network)
    if (const auto interface = bootstrap::networkInterface()) point.network = interface->address;
  const std::chrono::milliseconds lifetime(base::env().setupTimeoutMs);
  OpenRendezvous& openOnes = openRendezvous();  // before the server's thread logs anything
  std::shared_ptr<RendezvousServer> server;
  try {
    server = std::make_shared<RendezvousServer>(point, lifetime);
  } catch (const Error& error) {
    const base::Env& env = base::env();
    if (!point.network || !env.interface.empty() || !env.socketInterfaces.empty()) throw;
    base::log(LogLevel::Info, "this id is good on this host only: ", error.what());
    point.network.reset();
    server = std::make_shared<RendezvousServer>(point, lifetime);
  }
  const UniqueId id = bootstrap::encode(server->point());
  openOnes.add(std::move(server));
  return id;
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
