#pragma once

// The handles that the process has given out. A pointer that is none of them is refused and never
// followed.

#include <map>
#include <memory>
#include <mutex>

#include "src/nccl/comm.h"

namespace tutti::nccl {

class Handles {
 public:
  static Handles& ofProcess();

  ncclComm_t add(std::shared_ptr<Comm> comm);
  /// Throws InvalidArgument.
  std::shared_ptr<Comm> find(ncclComm_t handle) const;
  void remove(ncclComm_t handle);

 private:
  Handles();
  mutable std::mutex mutex_;
  std::map<ncclComm_t, std::shared_ptr<Comm>> comms_;
};

}  // namespace tutti::nccl
