#pragma once

// What one machine has, as a value: processors, memory, PCI devices, NICs, network interfaces and
// GPUs. read_machine.h fills it; distance.h and transports.h reason about it, with no hardware
// needed.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::topology {

/// Numbers of processing units as the kernel counts them, ascending.
using CpuSet = std::vector<int>;
bool intersect(const CpuSet& a, const CpuSet& b);
/// "0-3,8".
std::string toString(const CpuSet& cpus);

struct PciAddress {
  uint32_t domain = 0, bus = 0, device = 0, function = 0;

  /// "0000:3b:00.0", as sysfs, hwloc and CUDA write it; the domain may be missing. Nothing when the
  /// text is none.
  static std::optional<PciAddress> parse(std::string_view text);
  std::string describe() const;
  auto operator<=>(const PciAddress&) const = default;
};

struct Package {
  std::string model;  ///< empty when the machine does not tell
  CpuSet cpus;
};

struct NumaNode {
  int number = 0;  ///< the kernel's
  uint64_t memoryBytes = 0;
  CpuSet cpus;       ///< may be none: memory alone
  int package = -1;  ///< index; -1 when it belongs to none or to several
};

/// Of data, or of data and instructions.
struct Cache {
  int level = 1;
  uint64_t bytes = 0;
  CpuSet cpus;  ///< that share it
};

struct Core {
  CpuSet cpus;  ///< its hardware threads
};

struct PciDevice {
  enum class Kind : uint8_t { Network, Gpu, Accelerator } kind = Kind::Network;
  PciAddress address;
  std::string name;  ///< vendor and product, or their numbers
  /// Numbers of the bridges on the way from the processor, outermost first: the host bridge, then
  /// root ports and the ports of switches. Equal numbers are the same bridge.
  std::vector<int> bridges;
  std::vector<int> numaNodes;  ///< indices of those that it is near to; empty when unknown
};

struct Gid {
  int index = 0;
  std::string address;  ///< as an IPv6 address
  std::string type;     ///< "InfiniBand", "RoCE v1", "RoCE v2", or empty when unknown
};

struct NicPort {
  int number = 1;         ///< from 1
  std::string state;      ///< "active", "down", ...
  std::string linkLayer;  ///< "InfiniBand", "Ethernet", or empty
  double gigabitsPerSecond = 0;
  std::vector<Gid> gids;
  bool active() const { return state == "active"; }
};

/// A device of libibverbs.
struct Nic {
  std::string name;  ///< "mlx5_0"
  std::vector<NicPort> ports;
  std::optional<PciAddress> pci;  ///< none for software, such as Soft-RoCE
};

struct NetworkInterface {
  std::string name;                         ///< "eth0"
  std::vector<std::string> addresses;       ///< IPv4 first; without link-local ones of IPv6
  std::optional<double> gigabitsPerSecond;  ///< where the driver tells
  bool up = false, loopback = false;
  std::optional<PciAddress> pci;  ///< none for virtual ones
};

/// A CUDA device.
struct Gpu {
  std::string name;
  std::optional<PciAddress> pci;
  uint64_t memoryBytes = 0;
  int major = 0, minor = 0;    ///< compute capability
  std::string uuid;            ///< "GPU-...", as nvidia-smi writes it; empty when unknown
  std::optional<int> nvLinks;  ///< that are up; nothing when unknown
  std::vector<bool> reaches;   ///< for each GPU, whether this one can address its memory
};

/// A library that Tutti uses when it is there.
struct LibraryVersion {
  std::string name;     ///< "hwloc", "libibverbs", "UCX", "CUDA driver"
  std::string version;  ///< empty when it is missing
  std::string missing;  ///< why: a sentence, or what the dynamic linker said
};

struct Machine {
  std::string host;
  std::vector<Package> packages;
  std::vector<NumaNode> numaNodes;
  std::vector<Cache> caches;
  std::vector<Core> cores;
  CpuSet usable;  ///< what this process may run on
  std::vector<PciDevice> pciDevices;
  std::vector<Nic> nics;
  std::vector<NetworkInterface> interfaces;
  std::vector<Gpu> gpus;
  std::string gpusUnused;  ///< why this build of Tutti leaves them alone; empty where it does not
  std::vector<LibraryVersion> libraries;
  /// What could not be read, each with its reason: "libibverbs: mlx5_1 cannot be opened: ...".
  std::vector<std::string> problems;

  /// Null when there is none of that name or address.
  const LibraryVersion* library(std::string_view name) const;
  const PciDevice* pciDevice(const std::optional<PciAddress>& address) const;
  int usableCores() const;  ///< cores with a hardware thread that this process may run on
};

/// What carries messages to other hosts: a port of a NIC, or an interface that no NIC stands for.
struct NetworkDevice {
  std::string name;  ///< as UCX names it: "mlx5_0:1", "eth0"
  bool rdma = false;
  std::string unusable;          ///< why nothing can go through it: "the port is down"; else empty
  double gigabitsPerSecond = 0;  ///< 0 when unknown
  std::optional<PciAddress> pci;
};
/// In the order of the machine, NICs first. Without the loopback.
std::vector<NetworkDevice> networkDevices(const Machine& machine);

}  // namespace tutti::topology
