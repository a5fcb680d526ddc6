#pragma once

// What joins ranks that are as on different hosts.

#include "tests/executor/kernel/device_ranks.h"
#include "tests/support/sim/options.h"

namespace tutti::tests {

RemoteNetwork simNetwork(const transports::sim::SimOptions& options);
/// Packets are late, lost, doubled and overtaken, as `seed` says.
RemoteNetwork badSimNetwork(uint64_t seed);
/// Over loopback. Its workers live as long as it.
RemoteNetwork tcpNetwork();
RemoteNetwork ucxNetwork();
/// It has no zero-copy sends: everything is copied.
RemoteNetwork shmNetwork();

}  // namespace tutti::tests
