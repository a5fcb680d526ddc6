#include "src/topology/distance.h"

#include <algorithm>
#include <tuple>

#include "src/base/check.h"

namespace tutti::topology {
namespace {

/// Between devices that have a bridge in common.
Distance acrossBridges(const MachinePlace& a, const MachinePlace& b, size_t common) {
  if (common == 1) return Distance::Phb;
  // A switch is a port up, which both share, and a port down for each of the two.
  const size_t below = std::max(a.bridges.size(), b.bridges.size()) - common;
  return below <= 1 ? Distance::Pix : Distance::Pxb;
}

Distance betweenNodes(const Machine& machine, int from, const MachinePlace& to, bool bothDevices) {
  Distance best = Distance::Sys;
  for (const int node : to.numaNodes) {
    const int package = machine.numaNodes[from].package;
    if (node == from && !bothDevices)
      best = std::min(best, Distance::Phb);
    else if (node == from || (package >= 0 && package == machine.numaNodes[node].package))
      best = std::min(best, Distance::Node);
  }
  return best;
}

/// Indices of the devices that ranks can take.
std::vector<int> candidates(const std::vector<NetworkDevice>& devices) {
  const auto usable = [](const NetworkDevice& d) { return d.unusable.empty(); };
  const bool rdma =
      std::ranges::any_of(devices, [&](const auto& d) { return usable(d) && d.rdma; });
  double fastest = 0;
  for (const NetworkDevice& d : devices)
    if (usable(d) && d.rdma == rdma) fastest = std::max(fastest, d.gigabitsPerSecond);
  std::vector<int> found;
  for (size_t i = 0; i < devices.size(); ++i)
    if (usable(devices[i]) && devices[i].rdma == rdma &&
        (devices[i].gigabitsPerSecond == 0 || 2 * devices[i].gigabitsPerSecond >= fastest))
      found.push_back(static_cast<int>(i));
  return found;
}

MachinePlace placeOf(const Machine& machine, const CoreBinding& rank) {
  if (rank.gpu < 0) return placeOf(machine, rank.cpus);
  TUTTI_REQUIRE(static_cast<size_t>(rank.gpu) < machine.gpus.size(), "a rank with GPU ", rank.gpu,
                " on a machine with ", machine.gpus.size());
  return placeOf(machine, machine.gpus[rank.gpu].pci);
}

/// Part `index` of `parts`: consecutive cores, at least one; parts share cores where there are more
/// of them than cores.
CpuSet part(const std::vector<CpuSet>& cores, size_t index, size_t parts) {
  CpuSet cpus;
  if (cores.empty()) return cpus;
  const size_t first = index * cores.size() / parts;
  const size_t last = std::max((index + 1) * cores.size() / parts, first + 1);
  for (size_t i = first; i < last; ++i) cpus.insert(cpus.end(), cores[i].begin(), cores[i].end());
  std::ranges::sort(cpus);
  return cpus;
}

CpuSet common(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

}  // namespace

const char* toString(Distance distance) {
  switch (distance) {
    case Distance::Pix: return "PIX";
    case Distance::Pxb: return "PXB";
    case Distance::Phb: return "PHB";
    case Distance::Node: return "NODE";
    case Distance::Sys: return "SYS";
    case Distance::Unknown: break;
  }
  return "?";
}

const char* meaning(Distance distance) {
  switch (distance) {
    case Distance::Pix: return "one PCI switch at most";
    case Distance::Pxb: return "several PCI switches";
    case Distance::Phb: return "a host bridge";
    case Distance::Node: return "another part of the same package";
    case Distance::Sys: return "the link between packages";
    case Distance::Unknown: break;
  }
  return "unknown";
}

MachinePlace placeOf(const Machine& machine, const std::optional<PciAddress>& pci) {
  const PciDevice* const device = machine.pciDevice(pci);
  return device ? MachinePlace{device->bridges, device->numaNodes} : MachinePlace{};
}

MachinePlace placeOf(const Machine& machine, const CpuSet& cpus) {
  MachinePlace place;
  for (size_t i = 0; i < machine.numaNodes.size(); ++i)
    if (intersect(machine.numaNodes[i].cpus, cpus)) place.numaNodes.push_back(static_cast<int>(i));
  return place;
}

Distance distance(const Machine& machine, const MachinePlace& from, const MachinePlace& device) {
  const auto [a, b] = std::ranges::mismatch(from.bridges, device.bridges);
  const auto shared = static_cast<size_t>(a - from.bridges.begin());
  if (shared > 0) return acrossBridges(from, device, shared);
  if (from.numaNodes.empty() || device.numaNodes.empty()) return Distance::Unknown;
  Distance worst = Distance::Pix;
  for (const int node : from.numaNodes)
    worst = std::max(worst, betweenNodes(machine, node, device, !from.bridges.empty()));
  return worst;
}

std::vector<ClosestNic> closestNics(const Machine& machine, std::span<const CoreBinding> ranks) {
  const std::vector<NetworkDevice> devices = networkDevices(machine);
  const std::vector<int> usable = candidates(devices);
  std::vector<int> taken(devices.size(), 0);
  std::vector<ClosestNic> chosen;
  for (const CoreBinding& rank : ranks) {
    const MachinePlace place = placeOf(machine, rank);
    ClosestNic best;
    for (const int i : usable) {
      const Distance d = distance(machine, place, placeOf(machine, devices[i].pci));
      if (best.device < 0 ||
          std::tuple(d, taken[i]) < std::tuple(best.distance, taken[best.device]))
        best = {i, d};
    }
    if (best.device >= 0) ++taken[best.device];
    chosen.push_back(best);
  }
  return chosen;
}

std::vector<CoreBinding> bindInBlocks(const Machine& machine, int ranks) {
  TUTTI_REQUIRE(ranks >= 1, ranks, " ranks");
  std::vector<CpuSet> cores;
  for (const Core& core : machine.cores)
    if (CpuSet cpus = common(core.cpus, machine.usable); !cpus.empty())
      cores.push_back(std::move(cpus));
  std::vector<CoreBinding> bindings;
  for (int rank = 0; rank < ranks; ++rank) {
    CoreBinding binding{.cpus = part(cores, rank, ranks)};
    if (!machine.gpus.empty()) {
      binding.gpu = rank % static_cast<int>(machine.gpus.size());
      CpuSet closest;
      for (const int node : placeOf(machine, machine.gpus[binding.gpu].pci).numaNodes) {
        const CpuSet part = common(machine.numaNodes[node].cpus, machine.usable);
        closest.insert(closest.end(), part.begin(), part.end());
      }
      std::ranges::sort(closest);
      if (!closest.empty()) binding.cpus = std::move(closest);
    }
    bindings.push_back(std::move(binding));
  }
  return bindings;
}

std::string closestDevice(const Machine& machine, int rank, int ranks, std::optional<int> gpu) {
  TUTTI_REQUIRE(rank >= 0 && rank < ranks, "rank ", rank, " of ", ranks);
  const std::vector<NetworkDevice> devices = networkDevices(machine);
  const std::vector<int> usable = candidates(devices);
  if (usable.size() < 2 || !devices[usable.front()].rdma) return {};
  if (gpu && *gpu < static_cast<int>(machine.gpus.size())) {
    std::vector<CoreBinding> bindings;
    for (int index = 0; index <= *gpu; ++index) bindings.push_back({.gpu = index});
    return devices[closestNics(machine, bindings).back().device].name;
  }
  size_t cpus = 0;
  for (const Core& core : machine.cores) cpus += core.cpus.size();
  const bool bound = machine.usable.size() < cpus;
  const auto bindings =
      bound ? std::vector<CoreBinding>(rank + 1, CoreBinding{.cpus = machine.usable})
            : bindInBlocks(machine, ranks);
  return devices[closestNics(machine, bindings)[rank].device].name;
}

}  // namespace tutti::topology
