#pragma once

// A machine that nobody here has, for tests: two packages, eight GPUs, eight NICs, as hwloc's XML,
// a driver and a library would describe it.

#include <string>

#include "src/topology/read_machine.h"

namespace tutti::topology {

/// Two packages, each with one NUMA node of 512 GiB, four cores of two threads, and two host
/// bridges with this below each (packages 0 and 1; bridges 0 to 3):
///
///   host bridge - root port - switch +- GPU 2b        e.g. GPU 0 at 00:03:00.0
///                                    +- NIC 2b             mlx5_0 at 00:04:00.0
///                                    +- switch +- GPU 2b+1
///                                              +- NIC 2b+1
///
/// and an Ethernet device at another root port of host bridge 0 (00:20:00.0).
std::string bigMachineXml();

/// The functions of a CUDA driver with the eight GPUs, which reach those of their package.
CudaDriver bigMachineDriver();

/// Everything of it: NICs mlx5_0 to mlx5_7 of 400 Gbit/s, eth0 of 25.
Machine bigMachine();

}  // namespace tutti::topology
