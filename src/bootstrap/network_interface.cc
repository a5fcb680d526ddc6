#include "src/bootstrap/network_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "src/base/check.h"
#include "src/base/env.h"

namespace tutti::bootstrap {
namespace {

bool isLinkLocal(const Address& address) {
  return address.family == Family::Ipv6 && address.ip[0] == std::byte{0xfe} &&
         (address.ip[1] & std::byte{0xc0}) == std::byte{0x80};
}

struct Entry {
  NetworkInterface interface;
  bool loopback = false;
};

/// Those that are up, IPv4 before IPv6, in the kernel's order. Link-local addresses of IPv6 are
/// left out: they mean nothing without the interface that they are seen through.
std::vector<Entry> interfacesUp() {
  ifaddrs* list = nullptr;
  TUTTI_SYSCALL(::getifaddrs(&list));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<Entry> found;
  for (const ifaddrs* i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
    const auto address = addressOf(*i->ifa_addr);
    if (address && !isLinkLocal(*address))
      found.push_back({{i->ifa_name, *address}, (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  std::ranges::stable_sort(found, {}, [](const Entry& e) { return e.interface.address.family; });
  return found;
}

/// This host's address towards the rest of the world. Nothing is sent.
std::optional<Address> towardsDefaultRoute() {
  const base::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in far{};
  far.sin_family = AF_INET;
  far.sin_port = htons(9);
  far.sin_addr.s_addr = htonl(0xc0000201);  // 192.0.2.1, of nobody (RFC 5737)
  if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&far), sizeof far) != 0)
    return std::nullopt;
  return localAddress(socket.get());
}

std::string namesOf(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& e : entries)
    text += base::message(text.empty() ? "" : ", ", e.interface.name, " (",
                          e.interface.address.describeIp(), ")");
  return text.empty() ? "none is up" : text;
}

}  // namespace

std::optional<NetworkInterface> networkInterface(const std::optional<Address>& used) {
  const std::vector<Entry> all = interfacesUp();
  const auto findFirst = [&](const auto& condition) -> std::optional<NetworkInterface> {
    const auto it = std::ranges::find_if(all, condition);
    return it == all.end() ? std::nullopt : std::optional(it->interface);
  };
  const auto with = [&](const std::optional<Address>& address) {
    return findFirst([&](const Entry& e) {
      return address && e.interface.address.family == address->family &&
             e.interface.address.ip == address->ip;
    });
  };
  if (const std::string& wanted = base::env().interface; !wanted.empty()) {
    const auto named = findFirst([&](const Entry& e) {
      return e.interface.name == wanted || e.interface.address.describeIp() == wanted;
    });
    TUTTI_REQUIRE(named, "TUTTI_INTERFACE=", wanted,
                  " is no interface of this host that is up: ", namesOf(all));
    return named;
  }
  if (const auto found = with(used)) return found;
  if (const auto found = with(towardsDefaultRoute())) return found;
  return findFirst([](const Entry& e) { return !e.loopback; });
}

}  // namespace tutti::bootstrap
