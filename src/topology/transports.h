#pragma once

// Which transport would join ranks on a machine, and why not the others. A pure function of a
// Machine.

#include "src/topology/machine.h"

namespace tutti::topology {

struct TransportAnswer {
  std::string name;     ///< "shm", "p2p", "ucx"
  std::string joins;    ///< whom, and through what; empty when it joins nobody
  std::string because;  ///< why it joins nobody; empty when it joins somebody
};
/// For `ranks` ranks on this machine, and ranks on other hosts.
std::vector<TransportAnswer> transportAnswers(const Machine& machine, int ranks);

}  // namespace tutti::topology
