#pragma once

// Joining the GPUs of a communicator's ranks: addresses went with the hellos; then ranks tell each
// other twice what they know to be in the way, before and after the pairs have been tried out. Who
// is joined once more, for copies, does so between two more rounds: what is found there is known to
// one rank alone, and either all go on or none. So are pairs whose GPUs do not reach each other,
// which memory of the host joins. Where GPUs cannot be joined, the GPU backends of
// all ranks refuse calls, and say why. The thread that connects the communicator calls these.

#include <memory>
#include <span>
#include <vector>

#include "src/base/clock.h"
#include "src/communicator/owners.h"
#include "transports/connection.h"

namespace tutti::communicator {

/// Before anybody else hears of this rank.
void makeGpu(const Owners& rank);
/// By the peers' addresses for this rank. Collective.
void joinGpus(const Owners& rank, const std::vector<transports::EndpointAddress>& addresses,
              base::Deadline deadline);
/// The same for all ranks of one process, in one call.
void joinLocalGpus(std::span<const Owners* const> ranks);

}  // namespace tutti::communicator
