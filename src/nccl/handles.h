#pragma once

// The handles that the process has given out. A pointer that is none of them is refused and never
// followed; one whose communicator is gone is never given out again.

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "src/nccl/comm.h"

namespace tutti::nccl {

class NcclHandles {
 public:
  static NcclHandles& ofProcess();

  ncclComm_t add(std::shared_ptr<Comm> comm);
  /// Throws InvalidArgument.
  std::shared_ptr<Comm> find(ncclComm_t handle) const;
  void remove(ncclComm_t handle);

 private:
  NcclHandles();
  ~NcclHandles() = delete;
  mutable std::mutex mutex_;
  std::map<ncclComm_t, std::shared_ptr<Comm>> comms_;
  std::vector<std::unique_ptr<ncclComm>> given_;
};

}  // namespace tutti::nccl
