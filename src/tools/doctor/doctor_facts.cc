#include "src/tools/doctor/doctor_facts.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/base/check.h"
#include "src/base/env.h"
#include "src/base/file_descriptor.h"
#include "src/base/known_variables.h"
#include "src/bootstrap/network_interface.h"
#include "src/bootstrap/socket_control_plane.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/settings.h"
#include "src/launch/descriptors.h"
#include "src/tools/doctor/doctor_nccl.h"
#include "src/topology/read_machine.h"
#include "src/wire/address.h"
#include "transports/shm/endpoint.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace tutti::tools {
namespace {

// Windows, files and sockets of the program itself.
constexpr uint64_t kOwnDescriptors = 64;
// Code, stacks and heaps of a small program.
constexpr uint64_t kOwnBytes = uint64_t{1} << 30;
// Of the loader, when it is asked for a library.
constexpr std::chrono::seconds kLongestAnswer{10};

Outcome outcome(bool good) { return good ? "" : std::strerror(errno); }

Limit limitOf(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return {};
  const auto value = [](rlim_t l) { return l == RLIM_INFINITY ? kUnlimited : uint64_t{l}; };
  return {value(limit.rlim_cur), value(limit.rlim_max)};
}

std::string firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The word between brackets: "always [never]".
std::string chosenWord(const std::string& line) {
  const size_t from = line.find('['), to = line.find(']', from);
  return to == std::string::npos ? "" : line.substr(from + 1, to - from - 1);
}

Outcome trySealedMemory() {
  const base::FileDescriptor file(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return outcome(file && ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
}

Outcome tryProcessDescriptors() {
  const base::FileDescriptor self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  return outcome(static_cast<bool>(self));
}

Outcome tryPeerDescriptors() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return outcome(false);
  const base::FileDescriptor one(ends[0]), other(ends[1]);
  int fd = -1;
  socklen_t size = sizeof fd;
  if (::getsockopt(one.get(), SOL_SOCKET, SO_PEERPIDFD, &fd, &size) != 0) return outcome(false);
  const base::FileDescriptor peer(fd);
  return {};
}

Outcome tryListening(const topology::NetworkInterface* interface) {
  if (!interface) return {};
  try {
    wire::listenOn(wire::resolve(interface->addresses[0], 0), 1);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

Outcome tryTuning() {
  try {
    communicator::ownTuning();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<std::string> readOwnBridges(const topology::Machine& machine) {
  std::vector<std::string> bridges;
  for (const topology::NetworkInterface& interface : machine.interfaces) {
    const std::filesystem::path folder = "/sys/class/net/" + interface.name;
    if (!std::filesystem::exists(folder / "bridge")) continue;
    std::error_code none;
    const bool device = std::ranges::any_of(
        std::filesystem::directory_iterator(folder / "brif", none), [](const auto& port) {
          return std::filesystem::exists("/sys/class/net" / port.path().filename() / "device");
        });
    if (!device) bridges.push_back(interface.name);
  }
  return bridges;
}

std::vector<std::string> readGovernors(const topology::CpuSet& cpus) {
  std::vector<std::string> governors;
  for (const int cpu : cpus) {
    std::string word =
        firstLine(base::message("/sys/devices/system/cpu/cpu", cpu, "/cpufreq/scaling_governor"));
    if (!word.empty()) governors.push_back(std::move(word));
  }
  return governors;
}

void readNeeds(DoctorFacts& f) {
  const auto layout = transports::shm::chooseLayout(f.ranks, communicator::kChannels);
  f.inboxBytes = transports::shm::inboxBytes(f.ranks, layout);
  f.mappedBytes = 2 * f.inboxBytes + kOwnBytes;  // its own, and a block of each other's
  f.descriptors = std::max(bootstrap::socketControlPlaneDescriptors(f.ranks) + kOwnDescriptors,
                           launcher::launcherDescriptors(f.ranks));
}

}  // namespace

DoctorFacts readDoctorFacts(int ranks) {
  DoctorFacts f;
  f.machine = topology::readMachine();
  f.ranks = ranks > 0 ? ranks : std::max(1, f.machine.usableCores());
  readNeeds(f);
  f.cpuQuota = cpuQuota();
  f.cpuSet = cpuSetLimit();
  f.memory = transports::shm::memoryRoom();
  f.fileSize = limitOf(RLIMIT_FSIZE);
  f.lockedMemory = limitOf(RLIMIT_MEMLOCK);
  f.openFiles = limitOf(RLIMIT_NOFILE);
  f.addressSpace = limitOf(RLIMIT_AS);
  utsname name{};
  if (::uname(&name) == 0) f.kernel = name.release;
  f.sealedMemory = trySealedMemory();
  f.processDescriptors = tryProcessDescriptors();
  f.peerDescriptors = tryPeerDescriptors();
  const std::string clock = "/sys/devices/system/clocksource/clocksource0/";
  f.clockSource = firstLine(clock + "current_clocksource");
  f.availableClockSources = firstLine(clock + "available_clocksource");
  f.sharedHugePages = chosenWord(firstLine("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  f.governors = readGovernors(f.machine.usable);
  f.wantedInterface = base::env().interface;
  f.socketInterfaces = base::env().socketInterfaces;
  if (const auto route = bootstrap::towardsDefaultRoute()) f.routeAddress = route->describeIp();
  f.ownBridges = readOwnBridges(f.machine);
  f.listening = tryListening(chosenInterface(f));
  f.ucxDevices = transports::ucx::usersSetting("UCX_NET_DEVICES");
  f.ucxTransports = transports::ucx::usersSetting("UCX_TLS");
  f.transport = base::env().transport;
  f.tuning = base::env().tuning;
  f.readTuning = tryTuning();
  f.unknownVariables = base::unknownVariables(environ);
  f.nccl = findLoadersNccl(kLongestAnswer);
  f.ownNccl = ownNccl();
  return f;
}

const topology::NetworkInterface* chosenInterface(const DoctorFacts& f) {
  std::vector<bootstrap::InterfaceEntry> up;
  for (const topology::NetworkInterface& i : f.machine.interfaces)
    for (const std::string& address : i.addresses)
      if (i.up && !address.starts_with("fe80:"))
        up.push_back({{i.name, wire::resolve(address, 0)}, i.loopback});
  std::optional<wire::Address> route;
  if (!f.routeAddress.empty()) route = wire::resolve(f.routeAddress, 0);
  const auto chosen =
      bootstrap::chooseInterface(std::move(up), {f.wantedInterface, f.socketInterfaces}, {}, route);
  if (!chosen) return nullptr;
  return &*std::ranges::find(f.machine.interfaces, chosen->name, &topology::NetworkInterface::name);
}

}  // namespace tutti::tools
