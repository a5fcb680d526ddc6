#pragma once

// What `tutti simulate` prints.

#include <cstdint>
#include <optional>
#include <string>

#include "collectives/bounds.h"
#include "src/tools/simulate/simulate.h"
#include "src/topology/cluster.h"

namespace tutti::tools {

/// One algorithm for one size on one number of ranks.
struct SimulateRow {
  int ranks = 0;
  uint64_t bytes = 0;
  std::string algorithm;
  std::optional<double> microseconds;
  std::string refusal;     ///< why there is no time
  size_t ranksWalked = 0;  ///< for all ranks
  bool fastest = false;    ///< of those for this size and number of ranks
  collectives::Bounds bounds;

  double algorithmGBps() const;
  /// How many times the larger bound it takes; 1 where both are 0.
  double timesBound() const;
};

std::string simulateHeader(const SimulateOptions& options, const topology::Cluster& cluster);
std::string simulateLine(const SimulateOptions& options, const SimulateRow& row);
std::string simulateJson(const SimulateOptions& options, const topology::Cluster& cluster,
                         const SimulateRow& row);

}  // namespace tutti::tools
