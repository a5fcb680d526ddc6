#pragma once

// What the tools want to know of a communicator: with what its plans are chosen.

#include <tutti/communicator.h>

#include "src/topology/topology.h"

namespace tutti::communicator {

struct Inspection {
  static const topology::Topology& topology(const Communicator& c);
  static const topology::Tuning& tuning(const Communicator& c);
};

}  // namespace tutti::communicator
