#pragma once

// What `tutti doctor` measures, as plain data: its checks need no machine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/tools/doctor/cpu_quota.h"
#include "src/topology/machine.h"
#include "transports/shm/memory_limits.h"
#include "transports/ucx/settings.h"

namespace tutti::tools {

inline constexpr uint64_t kUnlimited = UINT64_MAX;

/// A limit of this process (getrlimit).
struct Limit {
  uint64_t soft = kUnlimited;  ///< that holds
  uint64_t hard = kUnlimited;  ///< up to which the process may raise it
};

/// Whether something could be done: empty, or the error in words.
using Outcome = std::string;

/// A library with NCCL's names, as its file tells.
struct NcclLibrary {
  std::string path;
  bool isTutti = false;
  std::string version;           ///< "2.30.7"; empty where the file does not say
  std::string describe() const;  ///< "/opt/libnccl.so.2: not Tutti's, NCCL 2.30.7"
};

struct DoctorFacts {
  int ranks = 1;
  topology::Machine machine;

  // What the ranks need.
  uint64_t inboxBytes = 0;   ///< shared memory of one rank
  uint64_t mappedBytes = 0;  ///< of address space, by one rank
  uint64_t descriptors = 0;  ///< open files of a rank, or of who launches them

  // What the machine gives.
  std::optional<CpuQuota> cpuQuota;                   ///< nothing: there is none
  std::optional<CpuSetLimit> cpuSet;                  ///< nothing when none can be read
  std::optional<transports::shm::MemoryRoom> memory;  ///< nothing when no limit can be read
  Limit fileSize, lockedMemory, openFiles, addressSpace;

  // The kernel.
  std::string kernel;  ///< "6.1.0-18-amd64"
  Outcome sealedMemory, processDescriptors, peerDescriptors;
  std::string clockSource, availableClockSources;  ///< empty when not shown
  std::string sharedHugePages;                     ///< "always", "never", ...; empty when not shown
  /// Of the cores that this process may use, one for each that shows it.
  std::vector<std::string> governors;

  // The network.
  std::string wantedInterface;   ///< TUTTI_INTERFACE
  std::string socketInterfaces;  ///< NCCL_SOCKET_IFNAME
  std::string routeAddress;      ///< of this host, towards others; empty without a route
  Outcome listening;             ///< on the interface that would be chosen
  /// Bridges without a port that is a device, like Docker's: as far as can be seen, they join only
  /// what runs on this host, and other hosts may have the same with the same address.
  std::vector<std::string> ownBridges;
  transports::ucx::Setting ucxDevices;     ///< UCX_NET_DEVICES
  transports::ucx::Setting ucxTransports;  ///< UCX_TLS

  // How ranks are joined, and what they choose by.
  std::string transport;                      ///< TUTTI_TRANSPORT
  std::string tuning;                         ///< TUTTI_TUNING
  Outcome readTuning;                         ///< of that file
  std::vector<std::string> unknownVariables;  ///< as base::unknownVariables() shows them

  // What programs of NCCL would load that have no library path of their own.
  std::optional<NcclLibrary> nccl;  ///< nothing: the loader finds none
  std::string ownNccl;              ///< path of Tutti's; empty where it is not found
};

/// Of this machine, for `ranks` ranks; 0: one for each core that this process may use.
DoctorFacts readDoctorFacts(int ranks);

/// The interface by which other hosts reach this one (bootstrap::networkInterface()); null when
/// there is none.
const topology::NetworkInterface* chosenInterface(const DoctorFacts& facts);

}  // namespace tutti::tools
