#include "src/topology/transports.h"

#include <algorithm>

#include "src/base/check.h"

namespace tutti::topology {
namespace {

TransportAnswer shm(int ranks) {
  if (ranks == 1) return {"shm", "", "one rank has no other on this host"};
  return {"shm",
          base::message("the ", ranks, " ranks of this host (", ranks * (ranks - 1) / 2,
                        ranks == 2 ? " pair)" : " pairs)", ", by shared memory"),
          ""};
}

TransportAnswer p2p(const Machine& machine) {
  if (const Library* cuda = machine.library("CUDA driver"); !cuda || cuda->version.empty())
    return {"p2p", "", "no CUDA driver"};
  if (machine.gpus.empty()) return {"p2p", "", "the CUDA driver shows no GPU"};
  return {"p2p", "", "this version of Tutti moves host memory only"};
}

TransportAnswer ucx(const Machine& machine) {
  if (const Library* library = machine.library("UCX"); !library || library->version.empty())
    return {"ucx", "", "UCX is not installed"};
  std::string rdma, tcp;
  for (const NetworkDevice& device : networkDevices(machine)) {
    if (!device.unusable.empty()) continue;
    std::string& list = device.rdma ? rdma : tcp;
    list += (list.empty() ? "" : ", ") + device.name;
  }
  if (rdma.empty() && tcp.empty())
    return {"ucx", "", "no NIC and no network interface but the loopback can be used"};
  return {"ucx",
          "ranks on other hosts, by " + (rdma.empty() ? "TCP over " + tcp : "RDMA over " + rdma),
          ""};
}

}  // namespace

std::vector<TransportAnswer> transportAnswers(const Machine& machine, int ranks) {
  TUTTI_REQUIRE(ranks >= 1, ranks, " ranks");
  return {shm(ranks), p2p(machine), ucx(machine)};
}

}  // namespace tutti::topology
