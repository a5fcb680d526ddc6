#pragma once

#include "tests/transports/fabric.h"
#include "transports/ucx/endpoint.h"

namespace tutti::tests {

/// Over loopback, whatever devices the machine has.
transports::ucx::WorkerOptions overTcp();

std::unique_ptr<Fabric> ucxThreads();     ///< ranks are threads, each with its worker, over TCP
std::unique_ptr<Fabric> ucxEverything();  ///< the same over all that UCX finds
std::unique_ptr<Fabric> ucxProcesses();   ///< ranks are forked processes, over TCP
/// Forked processes over all that UCX finds. Where that is shared memory, a killed rank may leave
/// some of it behind.
std::unique_ptr<Fabric> ucxEverythingProcesses();

}  // namespace tutti::tests
