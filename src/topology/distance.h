#pragma once

// How far apart the parts of a machine are, and which NIC is closest to a rank. Pure functions of a
// Machine.

#include <span>
#include <string>

#include "src/topology/machine.h"

namespace tutti::topology {

/// What bytes cross between two places, nearest first; NCCL's words. Unlike there, Node covers a
/// whole package, which may have several NUMA nodes.
enum class Distance : uint8_t {
  Pix,      ///< at most one PCI switch
  Pxb,      ///< several PCI switches, and no host bridge
  Phb,      ///< a host bridge
  Node,     ///< another host bridge or NUMA node of the same package
  Sys,      ///< the link between packages
  Unknown,  ///< one of the two has no known place
};
const char* toString(Distance distance);  ///< "PIX", ..., "?"
const char* meaning(Distance distance);   ///< a few words

/// Where something is.
struct MachinePlace {
  std::vector<int> bridges;    ///< see PciDevice; empty for memory and processors
  std::vector<int> numaNodes;  ///< indices; several when it may be at any of them
};
/// Of the device with this address; nowhere when the machine does not show it.
MachinePlace placeOf(const Machine& machine, const std::optional<PciAddress>& pci);
/// Of a rank that runs on any of `cpus`.
MachinePlace placeOf(const Machine& machine, const CpuSet& cpus);

/// From a place to a device. Of several NUMA nodes where `from` may be the farthest counts.
Distance distance(const Machine& machine, const MachinePlace& from, const MachinePlace& device);

/// Where a rank runs.
struct CoreBinding {
  CpuSet cpus;   ///< that it may run on
  int gpu = -1;  ///< index of the GPU whose memory it sends, or -1
};
struct ClosestNic {
  int device = -1;  ///< index into networkDevices(); -1 when none can be used
  Distance distance = Distance::Unknown;
  bool operator==(const ClosestNic&) const = default;
};
/// The NIC for each rank of this host. Those that can be used count: RDMA ports, or interfaces
/// where there is no such port; and of these only what is at least half as fast as the fastest, for
/// a slow one is not near at any distance. Each rank takes the nearest; among equally near ones
/// that which the fewest ranks before it took.
std::vector<ClosestNic> closestNics(const Machine& machine, std::span<const CoreBinding> ranks);

/// How `ranks` would be bound: the usable cores in equal consecutive parts, as mpirun and srun do;
/// where there are GPUs, rank r has GPU r mod their number, and the cores near it.
std::vector<CoreBinding> bindInBlocks(const Machine& machine, int ranks);

/// The RDMA port for the `rank`th of this host's `ranks`, as UCX_NET_DEVICES names it: "mlx5_3:1".
/// Empty where there are not several to choose among. Ranks are where bindInBlocks() has them; a
/// process that may use a part of the machine only is there, and so may be those before it. A rank
/// that works on `gpu` has the port that goes to this one when each GPU has a rank.
std::string closestDevice(const Machine& machine, int rank, int ranks, std::optional<int> gpu = {});

}  // namespace tutti::topology
