#pragma once

// Network: by what ranks of several hosts reach each other, tcp or UCX, for all communicators of a
// rank. It makes their endpoints.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <tutti/device.h>

#include "src/base/process.h"
#include "src/bootstrap/control_plane.h"
#include "src/communicator/settings.h"
#include "src/topology/machine.h"
#include "src/topology/topology.h"
#include "transports/connection.h"
#include "transports/tcp/endpoint.h"
#include "transports/ucx/endpoint.h"

namespace tutti::communicator {

/// A rank among those of its host.
struct LocalRank {
  int place = 0, ranks = 1;
  std::optional<int> gpu;  ///< the one that its communicator works on

  static LocalRank of(int rank, const topology::Topology& topology, Device device);
};
/// What UCX's worker of such a rank is told: the NIC that is near, where the machine that `read`
/// reads has several. What the user has told UCX counts.
transports::ucx::WorkerOptions workerOptions(const LocalRank& rank,
                                             const std::function<topology::Machine()>& read);

/// Which transport joins ranks of several hosts where the settings name none: UCX where all hosts
/// have RDMA, UCX may use it and nothing is to be encrypted, else tcp. All ranks compute the same.
std::string networkTransport(const Settings& settings, const bootstrap::ControlPlane& control);

class Network {
 public:
  explicit Network(std::shared_ptr<transports::ucx::Worker> worker);
  Network(std::shared_ptr<transports::tcp::TcpHub> hub, transports::tcp::TcpOptions options);
  ~Network();  ///< in a forked child it leaves everything as it is

  std::unique_ptr<transports::Endpoint> makeEndpoint(int rank, int size,
                                                     const transports::RingLayout& layout) const;
  /// It sends from GPUs' memory, and to it. UCX knows, where nobody `says` so.
  bool canReachGpus(std::optional<bool> says) const;
  /// For the end of messages about a peer that is not reached.
  const char* advice() const;

 private:
  std::shared_ptr<transports::ucx::Worker> worker_;  // of UCX, or
  std::shared_ptr<transports::tcp::TcpHub> hub_;     // of tcp
  const transports::tcp::TcpOptions options_;
  const base::ProcessGuard guard_;
};

/// "tcp" or "ucx", as networkTransport() has it. Throws Unsupported where UCX shall encrypt.
std::shared_ptr<Network> makeNetwork(const std::string& transport, const LocalRank& rank,
                                     const Settings& settings,
                                     const bootstrap::ControlPlane& control);
/// For ranks that share this process.
std::shared_ptr<Network> makeLocalNetwork(const std::string& transport, const Settings& settings);

}  // namespace tutti::communicator
