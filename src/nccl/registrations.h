#pragma once

// What ncclCommRegister() of one communicator has given out.

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <tutti/device.h>

namespace tutti::nccl {

/// Thread safe.
class Registrations {
 public:
  /// A new handle, which keeps `memory` until remove().
  void* add(std::optional<Memory> memory);
  /// Throws InvalidArgument for a handle that was not made here, or removed before.
  void remove(const void* handle);

 private:
  std::mutex mutex_;
  std::map<const void*, std::unique_ptr<std::optional<Memory>>> made_;
};

}  // namespace tutti::nccl
