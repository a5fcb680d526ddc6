#pragma once

// What the tools and the NCCL door want to know of a communicator.

#include <tutti/communicator.h>

#include "src/topology/topology.h"

namespace tutti::communicator {

struct Inspection {
  static const topology::Topology& topology(const Communicator& c);
  static const topology::Tuning& tuning(const Communicator& c);
  /// What came through channels in the last collective on host memory. After it.
  static uint64_t bytesReceived(const Communicator& c);
  /// Whether all that was launched on its GPU has ended.
  static bool gpuIsIdle(const Communicator& c);
};

}  // namespace tutti::communicator
