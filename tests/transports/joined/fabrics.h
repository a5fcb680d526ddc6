#pragma once

#include "tests/transports/fabric.h"

namespace tutti::tests {

/// Ranks 0 and 1, 2 and 3, ... are joined by shared memory, the others by the simulated network, on
/// an unreliable wire. Threads.
std::unique_ptr<Fabric> joinedThreads();

}  // namespace tutti::tests
