#pragma once

#include "tests/transports/fabric.h"

namespace tutti::tests {

std::unique_ptr<Fabric> shmThreads();    ///< ranks are threads, one inbox seen at one address
std::unique_ptr<Fabric> shmProcesses();  ///< ranks are forked processes

}  // namespace tutti::tests
