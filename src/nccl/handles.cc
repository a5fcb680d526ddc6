#include "src/nccl/handles.h"

#include "src/base/check.h"
#include "src/base/process.h"
#include "src/nccl/windows.h"

/// Nobody looks inside: its address is the handle.
struct ncclComm {};

namespace tutti::nccl {

NcclHandles& NcclHandles::ofProcess() {
  static auto* const instance = new NcclHandles;  // communicators may outlive main()
  return *instance;
}

NcclHandles::NcclHandles() { base::freeInForkedChildren(mutex_); }

ncclComm_t NcclHandles::add(std::shared_ptr<Comm> comm) {
  std::lock_guard lock(mutex_);
  given_.push_back(std::make_unique<ncclComm>());
  comms_.emplace(given_.back().get(), std::move(comm));
  return given_.back().get();
}

std::shared_ptr<Comm> NcclHandles::find(ncclComm_t handle) const {
  TUTTI_REQUIRE(handle, "the communicator is null");
  std::lock_guard lock(mutex_);
  const auto found = comms_.find(handle);
  TUTTI_REQUIRE(found != comms_.end(), handle,
                " is no communicator of this process, or was destroyed");
  return found->second;
}

// The communicator's farewell is said without the lock.
void NcclHandles::remove(ncclComm_t handle) {
  WindowHandles::ofProcess().forget(handle);
  std::shared_ptr<Comm> last;
  std::lock_guard lock(mutex_);
  const auto found = comms_.find(handle);
  if (found == comms_.end()) return;
  last = std::move(found->second);
  comms_.erase(found);
}

}  // namespace tutti::nccl
