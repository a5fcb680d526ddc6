#include "src/nccl/registrations.h"

#include <utility>

#include "src/base/check.h"

namespace tutti::nccl {

void* Registrations::add(std::optional<Memory> memory) {
  auto registration = std::make_unique<std::optional<Memory>>(std::move(memory));
  void* handle = registration.get();
  std::lock_guard lock(mutex_);
  made_.emplace(handle, std::move(registration));
  return handle;
}

void Registrations::remove(const void* handle) {
  std::unique_ptr<std::optional<Memory>> last;  // given back without the lock
  std::lock_guard lock(mutex_);
  const auto found = made_.find(handle);
  TUTTI_REQUIRE(found != made_.end(), handle, " is no registration of this communicator");
  last = std::move(found->second);
  made_.erase(found);
}

}  // namespace tutti::nccl
