#pragma once

// What joins ranks that are as on different hosts.

#include "tests/executor/cuda/device_ranks.h"
#include "tests/support/sim/options.h"

namespace tutti::tests {

FarNetwork simNetwork(const transports::sim::SimOptions& options);
/// Packets are late, lost, doubled and overtaken, as `seed` says.
FarNetwork badSimNetwork(uint64_t seed);
/// Over loopback. Its workers live as long as it.
FarNetwork ucxNetwork();
/// It cannot lend: everything is copied.
FarNetwork shmNetwork();

}  // namespace tutti::tests
