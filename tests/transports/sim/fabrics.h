#pragma once

#include "tests/support/sim/network.h"
#include "tests/transports/fabric.h"

namespace tutti::tests {

class SimFabric : public Fabric {
 public:
  /// Of those that endpoints() made last.
  virtual void kill(int rank) = 0;
};
std::unique_ptr<SimFabric> makeSimThreads();  ///< threads, real time, an unreliable wire

std::unique_ptr<Fabric> simVirtual();  ///< one thread, virtual time, an unreliable wire
std::unique_ptr<Fabric> simThreads();  ///< makeSimThreads()
std::unique_ptr<Fabric> simWrapped();  ///< as simVirtual, with numbers that wrap around soon

/// Drives all ranks of a network on virtual time from this thread.
std::vector<std::string> driveVirtual(transports::sim::SimNetwork& network,
                                      const Scenario& scenario,
                                      std::vector<std::unique_ptr<Endpoint>>& endpoints);

}  // namespace tutti::tests
