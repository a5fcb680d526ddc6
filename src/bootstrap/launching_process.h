#pragma once

// The process that started a rank, as far as /proc shows it: what the ranks of one job on one host
// have in common where their launcher names no job.

#include <string>

namespace tutti::bootstrap {

/// The nearest ancestor of this process without `rankVariable` in its environment: whatever stands
/// between a launcher and a rank, as a shell does, has that from the launcher. Its pid and the time
/// of its start: "pid 4711 at 88123". Empty where /proc does not show it.
std::string launchingProcess(const std::string& rankVariable);

}  // namespace tutti::bootstrap
