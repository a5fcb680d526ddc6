#pragma once

// Which transport would join ranks on a machine, and why not the others. A pure function of a
// Machine.

#include "src/topology/machine.h"

namespace tutti::topology {

struct TransportAnswer {
  std::string name;     ///< "shm", "p2p", "tcp", "ucx"
  std::string joins;    ///< whom, and through what; empty when it joins nobody
  std::string because;  ///< why; empty when it joins all whom it is for

  /// "nobody: no CUDA driver".
  std::string describe() const;
};
/// For `ranks` ranks on this machine, and ranks on other hosts.
std::vector<TransportAnswer> transportAnswers(const Machine& machine, int ranks);

/// Two GPUs, or one that ranks share, and how p2p joins ranks on them.
struct GpuPair {
  int first = 0, second = 0;
  int rankPairs = 0;    ///< so many pairs of ranks
  bool direct = false;  ///< each can address the other's memory
  std::string how;      ///< "by NVLink", or "through memory of the host" and why
  bool operator==(const GpuPair&) const = default;
};
/// All that pairs of `ranks` ranks are on, when rank r has GPU r modulo their number.
std::vector<GpuPair> gpuPairs(const Machine& machine, int ranks);

}  // namespace tutti::topology
