#pragma once

// World: what all communicators of one rank of a job share: the control plane, the windows and the
// networks. Every Membership keeps it alive; the last one that goes leaves the job. control and
// windows are constant and safe on all threads. `networks_` is protected by `mutex_`.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "src/base/at_exit.h"
#include "src/base/process.h"
#include "src/bootstrap/control_plane.h"
#include "src/communicator/network.h"
#include "src/communicator/windows.h"

namespace tutti::communicator {

/// Of the job of an id: the same on all ranks, and hardly for another job.
uint64_t numberOfJob(const UniqueId& id);

struct World {
  const base::ProcessGuard guard;
  const uint64_t job;  ///< the same on all ranks, and hardly for another job
  std::shared_ptr<bootstrap::ControlPlane> control;
  std::unique_ptr<WindowTable> windows;
  /// Made by the first communicator that needs that one, `transport`, by the NIC closest to the
  /// rank, where there are several. Collective calls make communicators, so threads may come at
  /// once.
  std::shared_ptr<Network> network(const std::string& transport, const LocalRank& rank,
                                   const Settings& settings);
  /// `shared`: of ranks that share a process, one for all of them; else null.
  World(uint64_t jobNumber, std::shared_ptr<bootstrap::ControlPlane> plane,
        std::shared_ptr<SharedWindows> shared);
  ~World();  ///< leaves the job; a forked child's copy leaves everything as it is

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Network>> networks_;  // by transport
  std::optional<base::AtExit> atExit_;  // leaves the job, where other processes are in it
};

}  // namespace tutti::communicator
