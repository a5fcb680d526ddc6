#pragma once

// Ranks of one process over any transport: createLocal is this over shared memory, tests use it
// over the simulated one.

#include <functional>
#include <memory>
#include <vector>

#include <tutti/communicator.h>

#include "src/bootstrap/control_plane.h"
#include "transports/connection.h"

namespace tutti::communicator {

/// One communicator for each rank; `makeEndpoint` is called once per rank when size > 1. `planes`
/// are the ranks' ends of one control plane; made here when there are none.
std::vector<Communicator> makeLocal(
    int size, const CommunicatorOptions& options,
    const std::function<std::unique_ptr<transports::Endpoint>(int rank)>& makeEndpoint,
    std::vector<std::shared_ptr<bootstrap::ControlPlane>> planes = {});

}  // namespace tutti::communicator
