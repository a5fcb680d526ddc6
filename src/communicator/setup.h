#pragma once

// Making a communicator out of its owners: the exchange of addresses over the control plane, and
// the proof that hosts reach each other. The thread that makes the communicator calls these; the
// monitor listens from listen() of the Watchdog on, which comes first.

#include <memory>
#include <span>
#include <vector>

#include "src/base/clock.h"
#include "src/communicator/owners.h"
#include "src/communicator/settings.h"
#include "transports/connection.h"

namespace tutti::communicator {

/// Throws InvalidArgument or Unsupported for a device or an algorithm that there is not.
void requirePossible(const Owners& rank);

/// Collective over the members, which have to run at the same time. `settings` are those of the
/// owners: they get rank 0's tuning.
void connect(const Owners& rank, Settings& settings, base::Deadline deadline);

/// Joins all ranks of one process, on whose channels somebody listens.
void connectLocal(std::span<const Owners* const> ranks);

/// The last of the set-up between hosts: whether these reach each other by the network of the data.
/// Throws Timeout or PeerLost naming the peer and the address (setup_hosts.cc).
void reachHosts(const Owners& rank, base::Deadline deadline);

}  // namespace tutti::communicator
