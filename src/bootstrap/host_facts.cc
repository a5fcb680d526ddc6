#include "src/bootstrap/host_facts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "src/base/cores.h"
#include "src/base/rdma_devices.h"

namespace tutti::bootstrap {
namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxInterfaceBytes = 64;
constexpr int kMaxCores = 1 << 20;
constexpr const char* kUnknownBootId = "unknown";

std::string hostName() {
  std::array<char, kMaxNameBytes> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace

std::string bootId() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot.empty() ? kUnknownBootId : boot;
}

HostFacts readHostFacts() {
  struct stat net {};
  if (::stat("/proc/self/ns/net", &net) != 0) net.st_ino = 0;
  return {.bootId = bootId(), .networkNamespace = net.st_ino};
}

bool areKnown(const HostFacts& facts) {
  return facts.bootId != kUnknownBootId && facts.networkNamespace != 0;
}

std::string hostId(const HostFacts& facts, const std::optional<wire::Address>& network) {
  const std::string id = base::message(facts.bootId, "/net:", facts.networkNamespace);
  return areKnown(facts) || !network ? id : base::message(id, "/", network->describeIp());
}

std::string PeerInfo::describe() const { return base::message("pid ", pid, " on host ", host); }

PeerInfo describeThisProcess() {
  return {.host = hostName(),
          .bootId = hostId(readHostFacts(), std::nullopt),
          .pid = ::getpid(),
          .cores = base::usableCores(),
          .hasRdma = !base::usableRdmaDevices().empty()};
}

void write(base::ByteWriter& out, const PeerInfo& info) {
  out.put(info.host).put(info.bootId).put(info.pid).put(info.cores);
  out.put(info.interface).put(info.interfaceVariable);
  out.put(static_cast<uint8_t>(info.hasRdma));
}

PeerInfo readPeerInfo(base::ByteReader& in) {
  PeerInfo info;
  info.host = in.getString("host", kMaxNameBytes);
  info.bootId = in.getString("boot id", kMaxNameBytes);
  info.pid = in.get<int64_t>("pid");
  info.cores = in.get<int>("cores");
  info.interface = in.getString("interface", kMaxInterfaceBytes);
  info.interfaceVariable = in.getString("interface variable", kMaxInterfaceBytes);
  info.hasRdma = in.getFlag("RDMA");
  if (info.pid <= 0) base::fail(ErrorCode::Refused, "pid ", info.pid, " is not a process");
  if (info.cores <= 0 || info.cores > kMaxCores)
    base::fail(ErrorCode::Refused, "cores ", info.cores, " is out of range");
  return info;
}

void requireWorldSize(int64_t size) {
  TUTTI_REQUIRE(size >= 1 && size <= kMaxWorldSize, "world size ", size, " is not between 1 and ",
                kMaxWorldSize);
}

void requireMembership(int rank, int size) {
  requireWorldSize(size);
  TUTTI_REQUIRE(rank >= 0 && rank < size, "rank ", rank, " is not in a world of ", size, " (0 to ",
                size - 1, ")");
}

void requireLimits(const ControlMessage& message) {
  TUTTI_REQUIRE(message.payload.size() <= kMaxPayloadBytes, "a control message of ",
                message.payload.size(), " bytes is over the limit of ", kMaxPayloadBytes);
  TUTTI_REQUIRE(message.descriptors.size() <= kMaxDescriptors, "a control message with ",
                message.descriptors.size(), " descriptors is over the limit of ", kMaxDescriptors);
}

}  // namespace tutti::bootstrap
