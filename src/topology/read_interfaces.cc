// What the kernel says about network interfaces.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "src/base/check.h"
#include "src/topology/read_machine.h"

namespace tutti::topology {
namespace {

/// Nothing for what is no IP address, and for link-local ones of IPv6: they mean nothing without
/// the interface that they are seen through.
std::optional<std::string> addressOf(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (!address) return std::nullopt;
  if (address->sa_family == AF_INET) {
    const auto& in = *reinterpret_cast<const sockaddr_in*>(address);
    return ::inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  const auto& in = *reinterpret_cast<const sockaddr_in6*>(address);
  if (IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr)) return std::nullopt;
  return ::inet_ntop(AF_INET6, &in.sin6_addr, text.data(), text.size());
}

/// The device behind the interface; a virtio device is a child of the PCI device.
std::optional<PciAddress> pciOf(const std::string& folder) {
  std::error_code none;
  auto path = std::filesystem::canonical(folder + "/device", none);
  if (none) return std::nullopt;
  if (const auto own = PciAddress::parse(path.filename().string())) return own;
  return PciAddress::parse(path.parent_path().filename().string());
}

NetworkInterface describe(const ifaddrs& entry, const std::string& sys) {
  NetworkInterface interface {
    .name = entry.ifa_name,
    .up = (entry.ifa_flags & IFF_UP) != 0 && (entry.ifa_flags & IFF_RUNNING) != 0,
    .loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0
  };
  const std::string folder = sys + "/class/net/" + interface.name;
  interface.pci = pciOf(folder);
  // Reading fails while the interface is down; -1 is what virtual ones say.
  double megabits = 0;
  if (std::ifstream(folder + "/speed") >> megabits && megabits > 0)
    interface.gigabitsPerSecond = megabits / 1000;
  return interface;
}

}  // namespace

void readInterfaces(Machine& machine, const std::string& sys) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    machine.problems.push_back(
        base::message("the network interfaces cannot be listed: ", std::strerror(errno)));
    return;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  // Each interface comes once, and once more for each address, IPv4 first.
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    auto it = std::ranges::find(machine.interfaces, entry->ifa_name, &NetworkInterface::name);
    if (it == machine.interfaces.end()) it = machine.interfaces.insert(it, describe(*entry, sys));
    if (auto address = addressOf(entry->ifa_addr)) it->addresses.push_back(std::move(*address));
  }
}

}  // namespace tutti::topology
