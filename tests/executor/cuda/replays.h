#pragma once

// Launches that are captured once and replayed with other data.

#include "tests/executor/cuda/device_ranks.h"

namespace tutti::tests {

/// One graph for each rank, of its launch.
class Replays {
 public:
  /// After begin().
  explicit Replays(DeviceRanks& ranks);
  ~Replays();
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  /// Fills the inputs from `seed` behind what the streams have, replays on all, and compares; what
  /// is wrong.
  std::string run(const Call& call, Wire wire, uint64_t seed);

 private:
  DeviceRanks& ranks_;
  std::vector<cudaGraphExec_t> graphs_;
};

/// Captures the call and replays it so many times; what is wrong.
std::string replayMany(const DeviceRanksOptions& options, const Call& call, Wire wire, int replays);

}  // namespace tutti::tests
