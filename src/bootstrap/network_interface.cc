#include "src/bootstrap/network_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

#include "src/base/check.h"
#include "src/base/env.h"
#include "src/base/printable.h"

namespace tutti::bootstrap {
namespace {

bool isAt(const InterfaceEntry& entry, const std::optional<wire::Address>& address) {
  const wire::Address& own = entry.interface.address;
  return address && own.family == address->family && own.ip == address->ip &&
         own.zone == address->zone;
}

std::string namesOf(const std::vector<InterfaceEntry>& entries) {
  std::string text;
  for (const InterfaceEntry& e : entries)
    text += base::message(text.empty() ? "" : ", ", e.interface.name, " (",
                          e.interface.address.describeIp(), ")");
  return text.empty() ? "none is up" : text;
}

}  // namespace

std::vector<InterfaceEntry> interfacesUp() {
  ifaddrs* list = nullptr;
  TUTTI_SYSCALL(::getifaddrs(&list));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<InterfaceEntry> found;
  for (const ifaddrs* i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
    const auto address = wire::addressOf(*i->ifa_addr);
    if (address) found.push_back({{i->ifa_name, *address}, (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

std::string interfaceWith(const wire::Address& address, const std::vector<InterfaceEntry>& up) {
  const auto found =
      std::ranges::find_if(up, [&](const InterfaceEntry& e) { return isAt(e, address); });
  return found == up.end() ? "" : found->interface.name;
}

bool leadsHere(const wire::Address& address, const std::vector<InterfaceEntry>& up) {
  return isLoopback(address) || !interfaceWith(address, up).empty();
}

std::string lackOf(wire::Family family, const std::vector<InterfaceEntry>& up) {
  const bool has = std::ranges::any_of(up, [&](const InterfaceEntry& e) {
    const wire::Address& own = e.interface.address;
    return !e.loopback && own.family == family && !isLinkLocal(own);
  });
  if (has) return {};
  const bool four = family == wire::Family::Ipv4;
  return base::message("this host has no address of ", four ? "IPv4" : "IPv6",
                       " but its loopback: all hosts of a job need addresses of one family");
}

std::string interfaceVariable() {
  if (!base::lenientEnv().interface.empty()) return "TUTTI_INTERFACE";
  return base::lenientEnv().socketInterfaces.empty() ? "" : "NCCL_SOCKET_IFNAME";
}

std::string describeInterface(const std::string& name, const std::string& variable) {
  return "interface " + name + (variable.empty() ? "" : ", chosen by " + variable);
}

std::optional<wire::Address> towardsDefaultRoute() {
  const base::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in far{};
  far.sin_family = AF_INET;
  far.sin_port = htons(9);
  far.sin_addr.s_addr = htonl(0xc0000201);  // 192.0.2.1, of nobody (RFC 5737)
  if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&far), sizeof far) != 0)
    return std::nullopt;
  return wire::localAddress(socket.get());
}

bool isListed(const std::string& list, const std::string& name) {
  std::string_view names = list;
  const auto take = [&](char sign) {
    const bool found = names.starts_with(sign);
    if (found) names.remove_prefix(1);
    return found;
  };
  const bool others = take('^'), whole = take('=');
  bool named = false;
  std::istringstream in{std::string(names)};
  for (std::string item; std::getline(in, item, ',');)
    named |= !item.empty() && (whole ? name == item : name.starts_with(item));
  return named != others;
}

std::optional<LocalInterface> chooseInterface(std::vector<InterfaceEntry> up,
                                              const WantedInterface& wanted,
                                              const std::optional<wire::Address>& used,
                                              const std::optional<wire::Address>& route) {
  // IPv4 before IPv6, and link-local addresses last.
  std::ranges::stable_sort(up, {}, [](const InterfaceEntry& e) {
    return std::pair(isLinkLocal(e.interface.address), e.interface.address.family);
  });
  const auto findFirst = [&](const auto& condition) -> std::optional<LocalInterface> {
    const auto it = std::ranges::find_if(up, condition);
    return it == up.end() ? std::nullopt : std::optional(it->interface);
  };
  const auto with = [&](const std::optional<wire::Address>& address) {
    return findFirst([&](const InterfaceEntry& e) { return isAt(e, address); });
  };
  if (!wanted.one.empty())
    return findFirst([&](const InterfaceEntry& e) {
      return e.interface.name == wanted.one || e.interface.address.describeIp() == wanted.one;
    });
  if (!wanted.list.empty())
    std::erase_if(
        up, [&](const InterfaceEntry& e) { return !isListed(wanted.list, e.interface.name); });
  if (const auto found = with(used)) return found;
  if (const auto found = with(route)) return found;
  const bool isNamed = !wanted.list.empty();
  if (const auto found = findFirst([&](const InterfaceEntry& e) {
        return !e.loopback && (isNamed || !isLinkLocal(e.interface.address));
      }))
    return found;
  return findFirst([&](const InterfaceEntry&) { return isNamed; });
}

std::optional<LocalInterface> networkInterface(const std::optional<wire::Address>& used) {
  const std::vector<InterfaceEntry> up = interfacesUp();
  const WantedInterface wanted{base::lenientEnv().interface, base::lenientEnv().socketInterfaces};
  const auto chosen = chooseInterface(up, wanted, used, towardsDefaultRoute());
  TUTTI_REQUIRE(chosen || wanted.one.empty(), "TUTTI_INTERFACE=", base::printable(wanted.one),
                " is no interface of this host that is up: ", namesOf(up));
  TUTTI_REQUIRE(chosen || wanted.list.empty(), "NCCL_SOCKET_IFNAME=", base::printable(wanted.list),
                " allows no interface of this host that is up: ", namesOf(up));
  return chosen;
}

}  // namespace tutti::bootstrap
