// What hwloc sees.

#include <hwloc.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>

#include "src/base/check.h"
#include "src/topology/read_machine.h"

namespace tutti::topology {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

// hwloc's own ways to GPUs would load drivers, which only readGpus may; its way to PCI devices by
// libpciaccess leaks, and adds to what it reads from sysfs no more than names.
constexpr std::array kNotWanted{"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci"};

/// Null, with the reason, when hwloc fails.
Topology load(const HwlocSource& source, std::string& why) {
  hwloc_topology_t made = nullptr;
  const auto failed = [&](const char* call) {
    why = base::message("hwloc: ", call, ": ", std::strerror(errno));
    return Topology(nullptr, hwloc_topology_destroy);
  };
  if (hwloc_topology_init(&made) != 0) return failed("hwloc_topology_init");
  Topology topology(made, hwloc_topology_destroy);
  for (const char* name : kNotWanted)  // unknown names do no harm
    hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, name);
  hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (!source.synthetic.empty() &&
      hwloc_topology_set_synthetic(made, source.synthetic.c_str()) != 0)
    return failed("hwloc_topology_set_synthetic");
  if (!source.xml.empty() &&
      hwloc_topology_set_xmlbuffer(made, source.xml.c_str(),
                                   static_cast<int>(source.xml.size()) + 1) != 0)
    return failed("hwloc_topology_set_xmlbuffer");
  if (hwloc_topology_load(made) != 0) return failed("hwloc_topology_load");
  return topology;
}

CpuSet cpusOf(hwloc_const_bitmap_t bitmap) {
  CpuSet cpus;
  if (!bitmap || hwloc_bitmap_weight(bitmap) < 0) return cpus;  // absent, or without end
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu))
    cpus.push_back(cpu);
  return cpus;
}

void forEach(hwloc_topology_t topology, hwloc_obj_type_t type,
             const std::function<void(hwloc_obj_t)>& visit) {
  for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_obj_by_type(topology, type, o));) visit(o);
}

std::string infoOf(hwloc_obj_t object, const char* name) {
  const char* const text = hwloc_obj_get_info_by_name(object, name);
  return text ? text : "";
}

int packageOf(hwloc_topology_t topology, hwloc_obj_t object) {
  const hwloc_obj_t above = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
  return above ? static_cast<int>(above->logical_index) : -1;
}

void readNodes(Machine& machine, hwloc_topology_t topology) {
  forEach(topology, HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t o) {
    machine.numaNodes.push_back({.number = static_cast<int>(o->os_index),
                                 .memoryBytes = o->attr->numanode.local_memory,
                                 .cpus = cpusOf(o->cpuset),
                                 .package = packageOf(topology, o)});
  });
}

void readCaches(Machine& machine, hwloc_topology_t topology) {
  constexpr std::array kTypes{HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                              HWLOC_OBJ_L4CACHE};
  for (size_t i = 0; i < kTypes.size(); ++i)
    forEach(topology, kTypes[i], [&](hwloc_obj_t o) {
      machine.caches.push_back({.level = static_cast<int>(i) + 1,
                                .bytes = o->attr->cache.size,
                                .cpus = cpusOf(o->cpuset)});
    });
}

/// What may be run on: for this machine also what the process is bound to.
CpuSet usableOf(hwloc_topology_t topology) {
  CpuSet usable = cpusOf(hwloc_topology_get_allowed_cpuset(topology));
  if (!hwloc_topology_is_thissystem(topology)) return usable;
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> bound(hwloc_bitmap_alloc(),
                                                                            hwloc_bitmap_free);
  if (hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) == 0)
    std::erase_if(usable, [&](int cpu) { return !hwloc_bitmap_isset(bound.get(), cpu); });
  return usable;
}

/// By the class of PCI's list: 02 is a network controller, 0c06 InfiniBand, 03 a display, 12 a
/// processing accelerator.
std::optional<PciDevice::Kind> kindOf(unsigned classId) {
  if (classId >> 8 == 0x02 || classId == 0x0c06) return PciDevice::Kind::Network;
  if (classId >> 8 == 0x03) return PciDevice::Kind::Gpu;
  if (classId >> 8 == 0x12) return PciDevice::Kind::Accelerator;
  return std::nullopt;
}

std::string nameOf(hwloc_obj_t device) {
  const std::string vendor = infoOf(device, "PCIVendor"), product = infoOf(device, "PCIDevice");
  if (!product.empty()) return vendor.empty() ? product : vendor + " " + product;
  std::array<char, 16> numbers{};
  std::snprintf(numbers.data(), numbers.size(), "%04x:%04x", device->attr->pcidev.vendor_id,
                device->attr->pcidev.device_id);
  return numbers.data();
}

std::vector<int> bridgesOf(hwloc_obj_t device) {
  std::vector<int> bridges;
  for (hwloc_obj_t o = device->parent; o && o->type == HWLOC_OBJ_BRIDGE; o = o->parent)
    bridges.push_back(static_cast<int>(o->logical_index));
  std::ranges::reverse(bridges);
  return bridges;
}

/// Indices of the NUMA nodes at the place where the device's host bridge hangs.
std::vector<int> nodesOf(hwloc_topology_t topology, hwloc_obj_t device) {
  std::vector<int> near;
  const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);
  forEach(topology, HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t node) {
    if (hwloc_bitmap_isset(place->nodeset, node->os_index))
      near.push_back(static_cast<int>(node->logical_index));
  });
  return near;
}

std::string interfaceVersion() {
  const unsigned version = hwloc_get_api_version();
  return base::message(version >> 16, ".", version >> 8 & 255, ".", version & 255);
}

void readPciDevices(Machine& machine, hwloc_topology_t topology) {
  forEach(topology, HWLOC_OBJ_PCI_DEVICE, [&](hwloc_obj_t o) {
    const auto& pci = o->attr->pcidev;
    if (const auto kind = kindOf(pci.class_id))
      machine.pciDevices.push_back({.kind = *kind,
                                    .address = {pci.domain, pci.bus, pci.dev, pci.func},
                                    .name = nameOf(o),
                                    .bridges = bridgesOf(o),
                                    .numaNodes = nodesOf(topology, o)});
  });
}

}  // namespace

void readProcessors(Machine& machine, const HwlocSource& source) {
  std::string why;
  const Topology topology = load(source, why);
  if (!topology) {
    machine.libraries.push_back({.name = "hwloc", .version = interfaceVersion()});
    machine.problems.push_back(why);
    return;
  }
  hwloc_topology_t t = topology.get();
  // The library notes its version there; otherwise the interface's is known.
  std::string version = infoOf(hwloc_get_root_obj(t), "hwlocVersion");
  if (version.empty()) version = interfaceVersion();
  machine.libraries.push_back({.name = "hwloc", .version = version});
  forEach(t, HWLOC_OBJ_PACKAGE, [&](hwloc_obj_t o) {
    machine.packages.push_back({.model = infoOf(o, "CPUModel"), .cpus = cpusOf(o->cpuset)});
  });
  readNodes(machine, t);
  readCaches(machine, t);
  forEach(t, HWLOC_OBJ_CORE,
          [&](hwloc_obj_t o) { machine.cores.push_back({.cpus = cpusOf(o->cpuset)}); });
  if (machine.cores.empty())  // without /sys hwloc knows processors alone
    forEach(t, HWLOC_OBJ_PU,
            [&](hwloc_obj_t o) { machine.cores.push_back({.cpus = cpusOf(o->cpuset)}); });
  machine.usable = usableOf(t);
  readPciDevices(machine, t);
}

}  // namespace tutti::topology
