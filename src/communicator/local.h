#pragma once

// Ranks of one process over any transport: createLocal is this over shared memory, tests use it
// over the simulated one.

#include <functional>
#include <memory>
#include <vector>

#include <tutti/communicator.h>

#include "transports/connection.h"

namespace tutti::communicator {

/// One communicator for each rank; `makeEndpoint` is called once per rank when size > 1.
std::vector<Communicator> makeLocal(
    int size, const CommunicatorOptions& options,
    const std::function<std::unique_ptr<transports::Endpoint>(int rank)>& makeEndpoint);

}  // namespace tutti::communicator
