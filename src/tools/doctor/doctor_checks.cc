#include "src/tools/doctor/doctor_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/units.h"
#include "transports/ucx/quirks.h"

namespace tutti::tools {
namespace {

using base::message;
using topology::LibraryVersion;
using topology::NetworkInterface;
using State = Finding::State;

std::string limitText(uint64_t limit) { return limit == kUnlimited ? "unlimited" : message(limit); }
std::string limitBytes(uint64_t limit) {
  return limit == kUnlimited ? "unlimited" : bytesText(limit);
}
std::string ranksText(const DoctorFacts& f) {
  return countText(static_cast<uint64_t>(f.ranks), "rank");
}

/// What raises a limit to `needed`, in ulimit's units: within the hard limit a shell can do it.
std::string raise(const Limit& limit, uint64_t needed, const char* option, const char* item,
                  const std::string& value) {
  if (limit.hard >= needed) return message("ulimit ", option, " ", value);
  return message("as root: echo '* - ", item, " ", value,
                 "' >> /etc/security/limits.d/tutti.conf; then log in again");
}

const LibraryVersion& libraryOf(const DoctorFacts& f, const char* name) {
  static const LibraryVersion none{.missing = "it was not looked for"};
  const LibraryVersion* found = f.machine.library(name);
  return found ? *found : none;
}

}  // namespace

const char* toString(State state) {
  switch (state) {
    case State::Good: return "good";
    case State::Note: return "note";
    case State::Slow: return "slow";
    case State::Wrong: return "wrong";
  }
  return "";
}

std::string shellWord(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.,:/@%=";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string exportOf(const std::string& variable, const std::string& value) {
  return message("export ", variable, "=", shellWord(value));
}

Finding checkCores(const DoctorFacts& f) {
  const int usable = f.machine.usableCores(), all = static_cast<int>(f.machine.cores.size());
  Finding found{
      .check = "cores",
      .measured = message(countText(static_cast<uint64_t>(usable), "core"), " for ", ranksText(f))};
  // A process may bind itself to what its cpuset has, and to no more.
  const bool isSet =
      usable < all && f.cpuSet && std::cmp_less_equal(f.cpuSet->count, f.machine.usable.size());
  if (isSet) found.measured += message(": ", f.cpuSet->within);
  if (f.ranks > usable) {
    found.state = State::Slow;
    found.why = "ranks that share a core wait for each other's turn at every message";
    found.mend =
        isSet ? message("widen the cpuset (Docker: --cpuset-cpus, Slurm: -c), or tutti run -n ",
                        std::max(usable, 1))
        : usable < all ? message("taskset -cp 0-", f.machine.cores.back().cpus.back(), " $$")
                       : message("tutti run -n ", std::max(usable, 1));
  } else if (usable < all) {
    found.state = State::Note;
    found.measured += message("; the machine has ", all);
    found.why =
        isSet ? "no program of this cpuset gets others" : "this process is bound to some of them";
  }
  return found;
}

Finding checkCpuQuota(const DoctorFacts& f) {
  Finding found{.check = "CPU quota"};
  if (!f.cpuQuota) {
    found.measured = "none";
    return found;
  }
  const double cpus = f.cpuQuota->cpus;
  found.measured = message(base::significant(cpus, 3), " CPUs for ", ranksText(f), ", ",
                           base::significant(cpus / f.ranks, 3), " for each: ", f.cpuQuota->within);
  if (f.ranks <= cpus) return found;
  found.state = State::Slow;
  found.why =
      "ranks beyond the quota wait: once it is used up, all ranks stand still until the next "
      "period";
  found.mend = message("raise the quota (Docker: --cpus, Kubernetes: limits.cpu) to ", f.ranks);
  if (cpus >= 1) found.mend += message(", or tutti run -n ", std::floor(cpus));
  return found;
}

Finding checkSharedMemory(const DoctorFacts& f) {
  const uint64_t needed = f.inboxBytes * static_cast<uint64_t>(f.ranks);
  Finding found{.check = "shared memory",
                .measured = message(
                    bytesText(needed), " for ", ranksText(f), ", ",
                    f.memory ? message(bytesText(f.memory->bytes), " left in ", f.memory->within)
                             : "of no known limit")};
  if (f.memory && f.memory->bytes < needed) {
    found.state = State::Wrong;
    found.why = "a communicator of these ranks on this host cannot be made";
    found.mend = f.memory->within == transports::shm::kWholeMachine
                     ? "export TUTTI_SLOT_BYTES=1024, or use fewer ranks"
                     : "raise the limit of the group (Slurm: --mem, Docker: --memory), or export "
                       "TUTTI_SLOT_BYTES=1024";
  }
  return found;
}

Finding checkSealedMemory(const DoctorFacts& f) {
  if (f.sealedMemory.empty())
    return {.check = "sealed memory", .measured = "memfd with seals works, Linux " + f.kernel};
  return {.check = "sealed memory",
          .state = State::Wrong,
          .measured = message("memfd with seals: ", f.sealedMemory, ", Linux ", f.kernel),
          .why = "ranks of one host share memory by sealed memfds, and by nothing else",
          .mend = "allow memfd_create and fcntl(F_ADD_SEALS) in the container's seccomp profile"};
}

Finding checkFileSize(const DoctorFacts& f) {
  Finding found{.check = "file size", .measured = "limit " + limitBytes(f.fileSize.soft)};
  if (f.fileSize.soft < f.inboxBytes) {
    found.state = State::Wrong;
    found.why =
        message("it holds for shared memory too, and a rank's is ", bytesText(f.inboxBytes));
    found.mend = raise(f.fileSize, kUnlimited, "-f", "fsize", "unlimited");
  }
  return found;
}

Finding checkAddressSpace(const DoctorFacts& f) {
  Finding found{.check = "address space", .measured = "limit " + limitBytes(f.addressSpace.soft)};
  if (f.addressSpace.soft < f.mappedBytes) {
    found.state = State::Wrong;
    found.why =
        message("a rank's mappings and a small program take about ", bytesText(f.mappedBytes));
    found.mend = raise(f.addressSpace, kUnlimited, "-v", "as", "unlimited");
  }
  return found;
}

Finding checkOpenFiles(const DoctorFacts& f) {
  Finding found{.check = "open files",
                .measured = message("limit ", limitText(f.openFiles.soft), ", ", f.descriptors,
                                    " are enough for ", ranksText(f))};
  if (f.openFiles.soft < f.descriptors) {
    found.state = State::Wrong;
    found.why = "a rank has a socket and a process descriptor of every other";
    found.mend = raise(f.openFiles, f.descriptors, "-n", "nofile", message(f.descriptors));
  }
  return found;
}

Finding checkLockedMemory(const DoctorFacts& f) {
  Finding found{.check = "locked memory", .measured = "limit " + limitBytes(f.lockedMemory.soft)};
  const bool rdma = std::ranges::any_of(topology::networkDevices(f.machine),
                                        [](const auto& d) { return d.rdma && d.unusable.empty(); });
  if (!rdma) {
    found.measured += ", and no NIC here needs any";
  } else if (f.lockedMemory.soft != kUnlimited) {
    found.state = State::Wrong;
    found.why = "a NIC reads and writes locked memory alone: beyond the limit RDMA fails";
    found.mend = raise(f.lockedMemory, kUnlimited, "-l", "memlock", "unlimited");
  }
  return found;
}

Finding checkProcessDescriptors(const DoctorFacts& f) {
  if (f.processDescriptors.empty())
    return {.check = "pidfd_open", .measured = "works, Linux " + f.kernel};
  return {
      .check = "pidfd_open",
      .state = State::Wrong,
      .measured = message(f.processDescriptors, ", Linux ", f.kernel),
      .why = "tutti run needs it, and without it a rank's death is noticed late",
      .mend = "use Linux 5.3 or newer, and allow pidfd_open in the container's seccomp profile"};
}

Finding checkPeerDescriptors(const DoctorFacts& f) {
  if (f.peerDescriptors.empty())
    return {.check = "SO_PEERPIDFD", .measured = "works, Linux " + f.kernel};
  return {.check = "SO_PEERPIDFD",
          .state = State::Note,
          .measured = message(f.peerDescriptors, ", Linux ", f.kernel),
          .why = "since Linux 6.5 the kernel names a peer's process itself; here its number does"};
}

Finding checkClock(const DoctorFacts& f) {
  // Those that a program reads without entering the kernel.
  constexpr std::array kReadByPrograms{
      "tsc",      "kvm-clock",        "hyperv_clocksource_tsc_page", "arch_sys_counter",
      "timebase", "riscv_clocksource"};
  Finding found{.check = "clock", .measured = f.clockSource};
  if (f.clockSource.empty()) {
    found.state = State::Note;
    found.measured = "the kernel does not show its source";
    found.why = "every wait reads the clock, and whether that is cheap is not known";
  } else if (!std::ranges::count(kReadByPrograms, f.clockSource)) {
    found.state = State::Slow;
    found.why = "every wait reads the clock, which then costs a system call or worse";
    const bool available =
        message(" ", f.availableClockSources, " ").find(" tsc ") != std::string::npos;
    found.mend = available ? "echo tsc | sudo tee "
                             "/sys/devices/system/clocksource/clocksource0/current_clocksource"
                           : "see why the kernel refuses it: sudo dmesg | grep -i tsc";
  }
  return found;
}

Finding checkGovernor(const DoctorFacts& f) {
  Finding found{.check = "CPU frequency"};
  const auto slow =
      std::ranges::find_if(f.governors, [](const auto& g) { return g != "performance"; });
  if (f.governors.empty()) {
    found.measured = "no governor is shown (as in virtual machines)";
  } else if (slow == f.governors.end()) {
    found.measured = "governor performance";
  } else {
    found.state = State::Slow;
    found.measured = message("governor ", *slow, " on ", std::ranges::count(f.governors, *slow),
                             " of ", f.governors.size(), " PUs");
    found.why = "a core that naps between messages clocks down, and latency varies";
    found.mend = "sudo cpupower frequency-set -g performance";
  }
  return found;
}

Finding checkHugePages(const DoctorFacts& f) {
  Finding found{.check = "huge pages",
                .measured = message("for shared memory: ",
                                    f.sharedHugePages.empty() ? "not shown" : f.sharedHugePages)};
  constexpr std::array kHuge{"always", "within_size", "force"};
  if (!f.sharedHugePages.empty() && !std::ranges::count(kHuge, f.sharedHugePages)) {
    found.state = State::Note;
    found.why = "windows and slots come in pages of 4 KiB: large ones cost more to make and to map";
    found.mend = "echo within_size | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled";
  }
  return found;
}

namespace {

/// The address that other hosts are told, of the interface that is chosen.
const std::string& addressOf(const NetworkInterface& chosen, const std::string& wanted) {
  const auto named = std::ranges::find(chosen.addresses, wanted);
  return named == chosen.addresses.end() ? chosen.addresses[0] : *named;
}

/// The variable that says which interface, and what it says; both empty where none is set.
std::pair<std::string, std::string> interfaceVariable(const DoctorFacts& f) {
  if (!f.wantedInterface.empty()) return {"TUTTI_INTERFACE", f.wantedInterface};
  if (!f.socketInterfaces.empty()) return {"NCCL_SOCKET_IFNAME", f.socketInterfaces};
  return {};
}

/// Of an interface that is up: whether other hosts do not reach this one by it.
void judgeReach(const DoctorFacts& f, const NetworkInterface& chosen, Finding& found) {
  const std::string& address = addressOf(chosen, f.wantedInterface);
  if (chosen.loopback && (address.starts_with("127.") || address == "::1")) {
    found.state = State::Wrong;
    found.why =
        "a loopback address leads every host to itself: ranks of other hosts cannot reach "
        "this one";
  } else if (chosen.loopback) {
    found.state = State::Note;
    found.why = "other hosts reach an address of the loopback only where their routes lead here";
  } else if (std::ranges::count(f.ownBridges, chosen.name) > 0) {
    found.state = State::Note;
    found.why =
        "no port of this bridge is a device: if it joins this host's containers alone, like "
        "Docker's, other hosts cannot reach this one by it";
  }
}

}  // namespace

Finding checkInterface(const DoctorFacts& f) {
  Finding found{.check = "interface"};
  const NetworkInterface* const chosen = chosenInterface(f);
  std::vector<const NetworkInterface*> others;
  for (const NetworkInterface& i : f.machine.interfaces)
    if (&i != chosen && i.up && !i.loopback && !i.addresses.empty()) others.push_back(&i);
  std::string names;
  for (const NetworkInterface* i : others) names += (names.empty() ? "" : ", ") + i->name;
  const auto [variable, value] = interfaceVariable(f);
  if (!chosen && !variable.empty()) {
    found.state = State::Wrong;
    found.measured = message(variable, "=", value, " is none that is up",
                             names.empty() ? "" : "; there are " + names);
    found.why = "ranks of other hosts cannot reach this one";
    found.mend = names.empty() ? "unset " + variable : exportOf("TUTTI_INTERFACE", others[0]->name);
    return found;
  }
  if (!chosen) {
    found.state = State::Note;
    found.measured = "none but the loopback is up";
    found.why = "ranks of other hosts cannot reach this one";
    const auto isLoopback = [](const NetworkInterface& i) { return i.up && i.loopback; };
    if (std::ranges::none_of(f.machine.interfaces, isLoopback)) {
      found.measured = "none is up, nor is the loopback";
      found.why = "UCX joins no ranks, those of this host neither";
      found.mend = "ip link set lo up";
    }
    return found;
  }
  found.measured = message(chosen->name, " (", addressOf(*chosen, f.wantedInterface), ")",
                           variable.empty() ? "" : ", as " + variable + " says");
  judgeReach(f, *chosen, found);
  if (found.state != State::Good) {
    found.mend =
        !others.empty() ? exportOf("TUTTI_INTERFACE", others[0]->name) : "unset " + variable;
    return found;
  }
  if (others.empty() || !variable.empty()) return found;
  found.measured += message(", of several: also ", names);
  const auto faster = std::ranges::find_if(others, [&](const NetworkInterface* i) {
    return chosen->gigabitsPerSecond && i->gigabitsPerSecond &&
           *i->gigabitsPerSecond > *chosen->gigabitsPerSecond;
  });
  if (faster == others.end()) {
    found.state = State::Note;
    found.why = "other hosts must reach this one by the interface that is chosen";
    found.mend = "if it is another: " + exportOf("TUTTI_INTERFACE", others[0]->name);
    return found;
  }
  found.state = State::Slow;
  found.why = message((*faster)->name, " is faster: ", rateText(*(*faster)->gigabitsPerSecond),
                      ", not ", rateText(*chosen->gigabitsPerSecond));
  found.mend = exportOf("TUTTI_INTERFACE", (*faster)->name);
  return found;
}

Finding checkListening(const DoctorFacts& f) {
  if (!chosenInterface(f)) return {.check = "listening", .measured = "on no interface"};
  if (f.listening.empty())
    return {.check = "listening", .measured = "a TCP port can be had on that interface"};
  return {.check = "listening",
          .state = State::Wrong,
          .measured = f.listening,
          .why = "ranks of other hosts meet at a TCP port of this one",
          .mend = "see what is left: ss -s; sysctl net.ipv4.ip_local_port_range"};
}

Finding checkRdma(const DoctorFacts& f) {
  const LibraryVersion& verbs = libraryOf(f, "libibverbs");
  Finding found{.check = "RDMA"};
  if (verbs.version.empty()) {
    const bool nic = std::ranges::any_of(f.machine.pciDevices, [](const auto& d) {
      return d.kind == topology::PciDevice::Kind::Network;
    });
    found.measured = "no libibverbs: " + verbs.missing;
    found.state = nic ? State::Note : State::Good;
    if (nic) {
      found.why = "whether a network device here can do RDMA is not known without it";
      found.mend = "sudo apt-get install libibverbs1 ibverbs-providers";
    }
    return found;
  }
  size_t ports = 0, active = 0;
  std::string idle, withoutRoutable;
  for (const topology::Nic& nic : f.machine.nics)
    for (const topology::NicPort& port : nic.ports) {
      const std::string name = message(" ", nic.name, ":", port.number);
      ++ports;
      active += port.active();
      if (!port.active()) idle += message(name, " is ", port.state, ";");
      const bool v1 = std::ranges::count(port.gids, "RoCE v1", &topology::Gid::type) > 0;
      const bool v2 = std::ranges::count(port.gids, "RoCE v2", &topology::Gid::type) > 0;
      if (port.active() && v1 && !v2) withoutRoutable += name;
    }
  found.measured = message("libibverbs ", verbs.version, ", ",
                           f.machine.nics.empty()
                               ? "no device"
                               : message(active, " of ", countText(ports, "port"), " active"));
  if (!withoutRoutable.empty()) {
    found.state = State::Slow;
    found.measured += message("; only RoCE v1 on", withoutRoutable);
    found.why = "RoCE v1 does not pass routers; v2 needs an IP address on the interface";
    found.mend = "give the interface an address: sudo ip address add ADDRESS/24 dev INTERFACE";
  } else if (!idle.empty()) {
    found.state = State::Note;
    found.measured += ":" + idle.substr(0, idle.size() - 1);
    found.why = "nothing goes through a port that is not active";
    found.mend = "see its cable and link: ip link; rdma link; ibstat";
  }
  return found;
}

namespace {

/// "1.22.0; known, and worked around: last word, no descriptor"
std::string knownOfUcx(const std::string& version) {
  const auto number = transports::ucx::parseUcxVersion(version);
  if (!number) return version;
  std::string known;
  for (const transports::ucx::KnownQuirk& each : transports::ucx::quirksOf(*number))
    known += message(known.empty() ? "; known, and worked around: " : ", ", each.name);
  return version + known;
}

}  // namespace

Finding checkUcx(const DoctorFacts& f) {
  const LibraryVersion& ucx = libraryOf(f, "UCX");
  if (!ucx.version.empty()) return {.check = "UCX", .measured = knownOfUcx(ucx.version)};
  return {.check = "UCX",
          .state = State::Note,
          .measured = ucx.missing,
          .why = "ranks on several hosts need it",
          .mend = "sudo apt-get install libucx0"};
}

Finding checkCuda(const DoctorFacts& f) {
  const LibraryVersion& cuda = libraryOf(f, "CUDA driver");
  const auto nvidia = std::ranges::count_if(f.machine.pciDevices, [](const auto& d) {
    return d.kind == topology::PciDevice::Kind::Gpu &&
           (d.name.starts_with("NVIDIA") || d.name.starts_with("10de:"));
  });
  if (!cuda.version.empty())
    return {.check = "CUDA",
            .measured = message("driver for CUDA ", cuda.version, ", ",
                                countText(f.machine.gpus.size(), "GPU"))};
  Finding found{.check = "CUDA", .measured = "no driver, no GPU"};
  if (nvidia > 0) {
    found.state = State::Note;
    found.measured = message("no driver: ", cuda.missing, "; ",
                             countText(static_cast<uint64_t>(nvidia), "NVIDIA GPU"));
    found.why = "without NVIDIA's driver the GPUs are not there";
    found.mend = "sudo apt-get install nvidia-driver";
  }
  return found;
}

Finding checkInventory(const DoctorFacts& f) {
  const LibraryVersion& hwloc = libraryOf(f, "hwloc");
  Finding found{.check = "inventory", .measured = "complete, by hwloc " + hwloc.version};
  if (!f.machine.problems.empty()) {
    found.state = State::Note;
    found.measured.clear();
    for (const std::string& problem : f.machine.problems)
      found.measured += (found.measured.empty() ? "" : "; ") + problem;
    found.why = "what is not seen is not used";
  }
  return found;
}

std::vector<Finding> diagnose(const DoctorFacts& facts) {
  constexpr std::array kChecks{checkCores,
                               checkCpuQuota,
                               checkSharedMemory,
                               checkSealedMemory,
                               checkFileSize,
                               checkAddressSpace,
                               checkOpenFiles,
                               checkLockedMemory,
                               checkProcessDescriptors,
                               checkPeerDescriptors,
                               checkClock,
                               checkGovernor,
                               checkHugePages,
                               checkInterface,
                               checkListening,
                               checkRdma,
                               checkUcx,
                               checkUcxDevices,
                               checkUcxTransports,
                               checkCuda,
                               checkInventory,
                               checkTransport,
                               checkTuning,
                               checkFoundNccl,
                               checkVariables};
  std::vector<Finding> findings;
  for (const auto& check : kChecks) findings.push_back(check(facts));
  return findings;
}

}  // namespace tutti::tools
