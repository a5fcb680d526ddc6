#pragma once

// What a control plane becomes in a forked child: inert. Its thread does not exist there and its
// mutexes may be locked for ever, so nothing of it is touched; only memory stays.

#include <unistd.h>

#include <memory>

#include "src/base/check.h"
#include "src/base/process.h"

namespace tutti::bootstrap {

class ProcessGuard {
 public:
  bool inForkedChild() const { return base::processGeneration() != generation_; }
  /// Throws InvalidUsage in a forked child.
  void requireOwner(const char* call) const {
    if (inForkedChild())
      base::fail(ErrorCode::InvalidUsage, call, ": process ", ::getpid(),
                 " was forked from process ", owner_,
                 ", and a forked child must not use its parent's communicators");
  }

 private:
  uint64_t generation_ = base::processGeneration();
  pid_t owner_ = ::getpid();
};

/// Keeps `state` reachable until the process ends, without running its destructor.
void abandon(std::shared_ptr<void> state);

}  // namespace tutti::bootstrap
