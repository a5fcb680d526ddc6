#pragma once

// Waiting for the end of a process within a deadline.

#include <sys/types.h>

#include "src/base/clock.h"

namespace tutti::launcher {

/// True when the child `pid` has ended, or is no child of this process any more. False when it has
/// not by the deadline: it is stopped, traced, or the kernel holds it. Does not reap it.
bool endsBy(pid_t pid, base::Deadline deadline);

}  // namespace tutti::launcher
