#include "src/communicator/world.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/topology/distance.h"
#include "src/topology/read_machine.h"
#include "transports/ucx/rdma_devices.h"
#include "transports/ucx/settings.h"

namespace tutti::communicator {

World::World(std::shared_ptr<bootstrap::ControlPlane> plane, std::shared_ptr<SharedWindows> shared)
    : control(std::move(plane)),
      windows(std::make_unique<WindowTable>(*control, std::move(shared))) {}

World::~World() {
  if (guard.inForkedChild()) {
    base::abandon(std::move(windows));
    return;
  }
  control->leave();
  windows.reset();
}

LocalRank LocalRank::of(int rank, const topology::Topology& topology, Device device) {
  const auto& hosts = topology.hostOf;
  const auto own = hosts.begin() + rank;
  LocalRank local{.place = static_cast<int>(std::count(hosts.begin(), own, *own)),
                  .ranks = static_cast<int>(std::ranges::count(hosts, *own))};
  if (device.kind == DeviceKind::Cuda) local.gpu = device.index;
  return local;
}

transports::ucx::WorkerOptions workerOptions(const LocalRank& rank,
                                             const std::function<topology::Machine()>& read) {
  if (std::getenv("UCX_NET_DEVICES")) return {};
  std::string device = topology::closestDevice(read(), rank.place, rank.ranks, rank.gpu);
  if (!device.empty())
    base::log(LogLevel::Debug, "rank ", rank.place, " of this host's ", rank.ranks, " uses ",
              device);
  return {.devices = std::move(device)};
}

namespace {

/// Where RDMA is not used: the interface by which the control plane reaches other hosts. UCX
/// would take the fastest one, which may be a bridge that leads nowhere.
transports::ucx::WorkerOptions byInterface(const std::string& interface) {
  if (std::getenv("UCX_NET_DEVICES")) return {};
  const base::Env& env = base::lenientEnv();
  return {.devices = interface.substr(0, interface.find(':')),  // "eth0:1" is another address
          .chosenBy = !env.interface.empty()          ? "TUTTI_INTERFACE=" + env.interface
                      : !env.socketInterfaces.empty() ? "NCCL_SOCKET_IFNAME=" + env.socketInterfaces
                                                      : ""};
}

/// RDMA devices that UCX may use. To read a machine takes longer than this.
size_t nicCount() {
  using namespace transports::ucx;
  return allowsRdma(usersSetting("UCX_TLS")) ? usableRdmaDevices().size() : 0;
}

}  // namespace

std::shared_ptr<transports::ucx::Worker> World::network(const LocalRank& rank) {
  std::lock_guard lock(mutex_);
  if (network_) return network_;
  transports::ucx::WorkerOptions options;  // with one RDMA device UCX chooses
  if (const auto nics = nicCount(); nics == 0)
    options = byInterface(control->peer(control->rank()).interface);
  else if (nics > 1)
    options = workerOptions(rank, [] { return topology::readMachine(); });
  const std::string& host = control->peer(control->rank()).bootId;
  for (int other = 0; other < control->size(); ++other)
    options.betweenHosts |= control->peer(other).bootId != host;
  network_ = transports::ucx::makeWorker(options);
  return network_;
}

}  // namespace tutti::communicator
