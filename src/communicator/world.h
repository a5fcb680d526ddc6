#pragma once

// World: what all communicators of one rank of a job share: the control plane, the windows and the
// worker of the network. Every Membership keeps it alive; the last one that goes leaves the job.
// control and windows are constant and safe on all threads. `network_` is protected by `mutex_`.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include <tutti/device.h>

#include "src/base/process.h"
#include "src/bootstrap/control_plane.h"
#include "src/communicator/windows.h"
#include "src/topology/machine.h"
#include "src/topology/topology.h"
#include "transports/ucx/endpoint.h"

namespace tutti::communicator {

/// A rank among those of its host.
struct LocalRank {
  int place = 0, ranks = 1;
  std::optional<int> gpu;  ///< the one that its communicator works on

  static LocalRank of(int rank, const topology::Topology& topology, Device device);
};
/// What the worker of such a rank is told: the NIC that is near, where the machine that `read`
/// reads has several. What the user has told UCX counts.
transports::ucx::WorkerOptions workerOptions(const LocalRank& rank,
                                             const std::function<topology::Machine()>& read);

struct World {
  const base::ProcessGuard guard;
  std::shared_ptr<bootstrap::ControlPlane> control;
  std::unique_ptr<WindowTable> windows;
  /// Made by the first communicator that needs the network, by the NIC closest to the rank, where
  /// there are several. Collective calls make communicators, so threads may come at once.
  std::shared_ptr<transports::ucx::Worker> network(const LocalRank& rank);
  /// `shared`: of ranks that share a process, one for all of them; else null.
  World(std::shared_ptr<bootstrap::ControlPlane> plane, std::shared_ptr<SharedWindows> shared);
  ~World();  ///< leaves the job; a forked child's copy leaves everything as it is

 private:
  std::mutex mutex_;
  std::shared_ptr<transports::ucx::Worker> network_;
};

}  // namespace tutti::communicator
