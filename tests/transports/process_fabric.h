#pragma once

// Ranks of a conformance scenario as forked processes, for any transport.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/transports/fabric.h"

namespace tutti::tests {

/// Runs each rank in a process of its own, which makes its endpoint, swaps addresses with all
/// others over sockets and drives its actors. A rank that vanishes is killed. The process that
/// calls this must have no threads. Returns what went wrong, as Fabric::run() does.
std::vector<std::string> driveProcesses(
    const Scenario& scenario, const std::function<std::unique_ptr<Endpoint>(int rank)>& make);

}  // namespace tutti::tests
