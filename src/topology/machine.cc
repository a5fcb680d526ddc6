#include "src/topology/machine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "src/base/check.h"

namespace tutti::topology {
namespace {

/// The hexadecimal number before `end` of the text, which is taken off with the character `end`.
std::optional<uint32_t> takeHex(std::string_view& text, char end) {
  const size_t at = end ? text.find(end) : text.size();
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  uint32_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + at, value, 16);
  if (error != std::errc() || rest != text.data() + at) return std::nullopt;
  text.remove_prefix(end ? at + 1 : at);
  return value;
}

NetworkDevice deviceOf(const Nic& nic, const NicPort& port) {
  return {.name = base::message(nic.name, ":", port.number),
          .rdma = true,
          .unusable = port.active() ? "" : "the port is " + port.state,
          .gigabitsPerSecond = port.gigabitsPerSecond,
          .pci = nic.pci};
}

NetworkDevice deviceOf(const NetworkInterface& interface) {
  return {.name = interface.name,
          .unusable = !interface.up                 ? "the interface is down"
                      : interface.addresses.empty() ? "the interface has no address"
                                                    : "",
          .gigabitsPerSecond = interface.gigabitsPerSecond.value_or(0),
          .pci = interface.pci};
}

}  // namespace

bool intersect(const CpuSet& a, const CpuSet& b) {
  return std::ranges::any_of(a, [&](int cpu) { return std::ranges::binary_search(b, cpu); });
}

std::string toString(const CpuSet& cpus) {
  std::string text;
  for (size_t first = 0; first < cpus.size();) {
    size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += base::message(text.empty() ? "" : ",", cpus[first]);
    if (last > first) text += base::message("-", cpus[last]);
    first = last + 1;
  }
  return text;
}

std::optional<PciAddress> PciAddress::parse(std::string_view text) {
  PciAddress address;
  if (std::ranges::count(text, ':') == 2) {
    const auto domain = takeHex(text, ':');
    if (!domain) return std::nullopt;
    address.domain = *domain;
  }
  const auto bus = takeHex(text, ':');
  const auto device = bus ? takeHex(text, '.') : std::nullopt;
  const auto function = device ? takeHex(text, '\0') : std::nullopt;
  if (!function || *bus > 0xff || *device > 0x1f || *function > 7) return std::nullopt;
  address.bus = *bus;
  address.device = *device;
  address.function = *function;
  return address;
}

std::string PciAddress::describe() const {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text.data();
}

const LibraryVersion* Machine::library(std::string_view name) const {
  const auto it = std::ranges::find(libraries, name, &LibraryVersion::name);
  return it == libraries.end() ? nullptr : &*it;
}

const PciDevice* Machine::pciDevice(const std::optional<PciAddress>& address) const {
  if (!address) return nullptr;
  const auto it = std::ranges::find(pciDevices, *address, &PciDevice::address);
  return it == pciDevices.end() ? nullptr : &*it;
}

int Machine::usableCores() const {
  return static_cast<int>(
      std::ranges::count_if(cores, [&](const Core& c) { return intersect(c.cpus, usable); }));
}

std::vector<NetworkDevice> networkDevices(const Machine& machine) {
  std::vector<NetworkDevice> devices;
  for (const Nic& nic : machine.nics)
    for (const NicPort& port : nic.ports) devices.push_back(deviceOf(nic, port));
  for (const NetworkInterface& interface : machine.interfaces) {
    const bool ofNic = interface.pci && std::ranges::count(machine.nics, interface.pci, &Nic::pci);
    // A virtual interface that is down, or has no address, is nobody's way out.
    const bool idle = !interface.pci && (!interface.up || interface.addresses.empty());
    if (!interface.loopback && !ofNic && !idle) devices.push_back(deviceOf(interface));
  }
  return devices;
}

}  // namespace tutti::topology
