#pragma once

// One rank's end of a simulated network. Its rings are made on first use.

#include <memory>

#include "tests/support/sim/network.h"
#include "transports/connection.h"

namespace tutti::transports::sim {

std::unique_ptr<Endpoint> makeSimEndpoint(std::shared_ptr<SimNetwork> network, int rank);

}  // namespace tutti::transports::sim
