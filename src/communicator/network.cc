#include "src/communicator/network.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "src/base/check.h"
#include "src/base/env.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "src/base/rdma_devices.h"
#include "src/topology/distance.h"
#include "src/topology/read_machine.h"
#include "transports/ucx/settings.h"

namespace tutti::communicator {
namespace {

namespace tcp = transports::tcp;
namespace ucx = transports::ucx;

/// Which variable has chosen the interface by which other hosts reach this one; empty: none.
std::string chosenBy() {
  const base::Env& env = base::lenientEnv();
  return !env.interface.empty()          ? "TUTTI_INTERFACE=" + env.interface
         : !env.socketInterfaces.empty() ? "NCCL_SOCKET_IFNAME=" + env.socketInterfaces
                                         : "";
}

/// Where RDMA is not used: the interface by which the control plane reaches other hosts. UCX
/// would take the fastest one, which may be a bridge that leads nowhere.
ucx::WorkerOptions byInterface(const std::string& interface) {
  if (std::getenv("UCX_NET_DEVICES")) return {};
  return {.devices = interface.substr(0, interface.find(':')),  // "eth0:1" is another address
          .chosenBy = chosenBy()};
}

/// RDMA devices that UCX may use. To read a machine takes longer than this.
size_t nicCount() {
  return ucx::allowsRdma(ucx::usersSetting("UCX_TLS")) ? base::usableRdmaDevices().size() : 0;
}

std::shared_ptr<ucx::Worker> makeWorker(const LocalRank& rank,
                                        const bootstrap::ControlPlane& control) {
  ucx::WorkerOptions options;  // with one RDMA device UCX chooses
  if (const auto nics = nicCount(); nics == 0)
    options = byInterface(control.peer(control.rank()).interface);
  else if (nics > 1)
    options = workerOptions(rank, [] { return topology::readMachine(); });
  const std::string& host = control.peer(control.rank()).bootId;
  for (int other = 0; other < control.size(); ++other)
    options.betweenHosts |= control.peer(other).bootId != host;
  return ucx::makeWorker(options);
}

/// The address by which other hosts reach this one; the loopback's where there are none.
tcp::HubOptions hubOptions(const bootstrap::PeerInfo& own) {
  if (!own.network) return {.place = wire::resolve("127.0.0.1", 0), .device = "lo"};
  const std::string chosen = chosenBy();
  wire::Address place = *own.network;
  place.port = 0;
  return {.place = place, .device = own.interface + (chosen.empty() ? "" : " (" + chosen + ")")};
}

void requireCipher(const std::string& transport, const Settings& settings) {
  if (settings.encrypts && transport == "ucx")
    base::fail(ErrorCode::Unsupported,
               "transport ucx does not encrypt (TUTTI_ENCRYPTION): transport tcp does");
}

tcp::TcpOptions tcpOptions(const Settings& settings) {
  return {.streams = settings.tcpStreams,
          .encrypts = settings.encrypts,
          .preSharedKey = settings.preSharedKey,
          .reconnect = std::chrono::milliseconds(settings.reconnectMs),
          .trafficClass = settings.trafficClass};
}

}  // namespace

LocalRank LocalRank::of(int rank, const topology::Topology& topology, Device device) {
  const auto& hosts = topology.hostOf;
  const auto own = hosts.begin() + rank;
  LocalRank local{.place = static_cast<int>(std::count(hosts.begin(), own, *own)),
                  .ranks = static_cast<int>(std::ranges::count(hosts, *own))};
  if (device.kind == DeviceKind::Cuda) local.gpu = device.index;
  return local;
}

ucx::WorkerOptions workerOptions(const LocalRank& rank,
                                 const std::function<topology::Machine()>& read) {
  if (std::getenv("UCX_NET_DEVICES")) return {};
  std::string device = topology::closestDevice(read(), rank.place, rank.ranks, rank.gpu);
  if (!device.empty())
    base::log(LogLevel::Debug, "rank ", rank.place, " of this host's ", rank.ranks, " uses ",
              device);
  return {.devices = std::move(device)};
}

std::string networkTransport(const Settings& settings, const bootstrap::ControlPlane& control) {
  for (const char* const name : {"tcp", "ucx"})
    if (settings.transport.ends_with(name)) return name;
  bool rdma = !settings.encrypts && ucx::allowsRdma(ucx::usersSetting("UCX_TLS"));
  for (int rank = 0; rank < control.size(); ++rank) rdma = rdma && control.peer(rank).hasRdma;
  return rdma ? "ucx" : "tcp";
}

Network::Network(std::shared_ptr<ucx::Worker> worker) : worker_(std::move(worker)) {}

Network::Network(std::shared_ptr<tcp::TcpHub> hub, tcp::TcpOptions options)
    : hub_(std::move(hub)), options_(std::move(options)) {}

Network::~Network() {
  if (!guard_.inForkedChild()) return;
  base::abandon(std::move(worker_));
  base::abandon(std::move(hub_));
}

std::unique_ptr<transports::Endpoint> Network::makeEndpoint(
    int rank, int size, const transports::RingLayout& layout) const {
  return hub_ ? tcp::makeTcpEndpoint(hub_, rank, size, layout, options_)
              : ucx::makeUcxEndpoint(worker_, rank, size, layout);
}

bool Network::canReachGpus(std::optional<bool> says) const {
  return worker_ && (says ? *says : ucx::reachesGpus(*worker_));
}

const char* Network::advice() const {
  return hub_ ? "; TUTTI_INTERFACE names another interface" : ucx::kAdvice;
}

std::shared_ptr<Network> makeNetwork(const std::string& transport, const LocalRank& rank,
                                     const Settings& settings,
                                     const bootstrap::ControlPlane& control) {
  requireCipher(transport, settings);
  if (transport == "ucx") return std::make_shared<Network>(makeWorker(rank, control));
  return std::make_shared<Network>(tcp::makeHub(hubOptions(control.peer(control.rank()))),
                                   tcpOptions(settings));
}

std::shared_ptr<Network> makeLocalNetwork(const std::string& transport, const Settings& settings) {
  requireCipher(transport, settings);
  if (transport == "ucx") return std::make_shared<Network>(ucx::makeWorker());
  return std::make_shared<Network>(tcp::makeHub(hubOptions({})), tcpOptions(settings));
}

}  // namespace tutti::communicator
