#pragma once

// The windows that the process has given out. A pointer that is none of them is refused and never
// followed.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <tutti-nccl/nccl.h>
#include <tutti/window.h>

#include <tutti/device.h>

namespace tutti::nccl {

/// One rank's window. Nobody looks inside: its address is the handle.
struct NcclWindow {
  ncclComm_t comm = nullptr;
  std::optional<Memory> shared = {};  ///< that other ranks of the host address
  Window window = {};                 ///< given back first
};

class WindowHandles {
 public:
  static WindowHandles& ofProcess();

  ncclWindow_t add(std::shared_ptr<NcclWindow> window);
  /// Throws InvalidArgument.
  std::shared_ptr<NcclWindow> find(ncclWindow_t handle) const;
  /// Throws InvalidArgument for one that is none of `comm`.
  std::shared_ptr<NcclWindow> find(ncclWindow_t handle, ncclComm_t comm) const;
  void remove(ncclWindow_t handle, ncclComm_t comm);
  /// All of a communicator that goes.
  void forget(ncclComm_t comm);

 private:
  WindowHandles();
  ~WindowHandles() = delete;
  mutable std::mutex mutex_;
  std::map<ncclWindow_t, std::shared_ptr<NcclWindow>> windows_;
};

}  // namespace tutti::nccl
