#pragma once

// Reading a Machine from hwloc, libibverbs, the kernel, the CUDA driver and NVML. Nothing here
// throws for what a machine lacks: the reason goes into the value and the inventory goes on.
//
// hwloc is linked. The others are looked for when the program runs, because a machine without RDMA
// or without a GPU need not have them, and one `tutti` runs on all: of libibverbs the build needs
// the header alone, of CUDA nothing.

#include <string>

#include "src/topology/cuda_driver.h"
#include "src/topology/machine.h"
#include "src/topology/nvml.h"
#include "src/topology/verbs.h"

namespace tutti::topology {

/// This machine, as this process sees it. Loads what libraries are there.
Machine readMachine();

/// What hwloc looks at: this machine, a description such as "pack:2 numa:2 core:4 pu:1", or the
/// text of an XML file that lstopo exported.
struct HwlocSource {
  std::string synthetic = {};
  std::string xml = {};
};
/// Packages, NUMA nodes, caches, cores, usable processors, PCI devices.
void readProcessors(Machine& machine, const HwlocSource& source = {});
/// NICs. `sys` is where sysfs is; tests give folders of their own.
void readNics(Machine& machine, const Verbs& verbs, const std::string& sys = "/sys");
void readInterfaces(Machine& machine, const std::string& sys = "/sys");
void readGpus(Machine& machine, const CudaDriver& driver);
/// The NVLinks of the GPUs that there are.
void readNvLinks(Machine& machine, const Nvml& nvml);
/// Whether UCX can be loaded, and which.
void readUcx(Machine& machine);

}  // namespace tutti::topology
