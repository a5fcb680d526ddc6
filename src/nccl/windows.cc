#include "src/nccl/windows.h"

#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/process.h"

namespace tutti::nccl {

WindowHandles& WindowHandles::ofProcess() {
  static auto* const instance = new WindowHandles;  // windows may outlive main()
  return *instance;
}

WindowHandles::WindowHandles() { base::freeInForkedChildren(mutex_); }

ncclWindow_t WindowHandles::add(std::shared_ptr<NcclWindow> window) {
  const auto handle = reinterpret_cast<ncclWindow_t>(window.get());
  const std::lock_guard lock(mutex_);
  windows_.emplace(handle, std::move(window));
  return handle;
}

std::shared_ptr<NcclWindow> WindowHandles::find(ncclWindow_t handle) const {
  TUTTI_REQUIRE(handle, "the window is null");
  const std::lock_guard lock(mutex_);
  const auto found = windows_.find(handle);
  TUTTI_REQUIRE(found != windows_.end(), static_cast<const void*>(handle),
                " is no window of this process, or was deregistered");
  return found->second;
}

std::shared_ptr<NcclWindow> WindowHandles::find(ncclWindow_t handle, ncclComm_t comm) const {
  auto found = find(handle);
  TUTTI_REQUIRE(found->comm == comm, static_cast<const void*>(handle),
                " is a window of another communicator");
  return found;
}

// Windows are given back without the lock.

void WindowHandles::remove(ncclWindow_t handle, ncclComm_t comm) {
  const std::shared_ptr<NcclWindow> last = find(handle, comm);
  const std::lock_guard lock(mutex_);
  windows_.erase(handle);
}

void WindowHandles::forget(ncclComm_t comm) {
  std::vector<std::shared_ptr<NcclWindow>> last;
  const std::lock_guard lock(mutex_);
  std::erase_if(windows_, [&](auto& each) {
    if (each.second->comm != comm) return false;
    last.push_back(std::move(each.second));
    return true;
  });
}

}  // namespace tutti::nccl
