#pragma once

// Launches that are captured once and replayed with other data.

#include <span>
#include <string>
#include <vector>

#include "tests/executor/kernel/device_ranks.h"

namespace tutti::tests {

/// Fills the ranks' inputs from `seed` behind what their streams have, and launches their graphs
/// there. What it returns is read until the streams are empty.
template <class Ranks>
[[nodiscard]] std::vector<Memory> refillAndLaunch(Ranks& ranks, const Call& call,
                                                  std::span<const cudaGraphExec_t> graphs,
                                                  uint64_t seed) {
  std::vector<Memory> inputs;
  for (int r = 0; r < ranks.size(); ++r) {
    const Memory& input = inputs.emplace_back(memoryOf(call, r, seed));
    device::OnDevice on(ranks.deviceOf(r));
    TUTTI_CUDA(cudaMemcpyAsync(ranks.buffer(r).data(), input.bytes.data(), input.bytes.size(),
                               cudaMemcpyHostToDevice, ranks.stream(r)));
    TUTTI_CUDA(cudaGraphLaunch(graphs[r], ranks.stream(r)));
  }
  return inputs;
}

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
