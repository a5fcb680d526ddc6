#pragma once

// What launches of programs, and of sends and receives, have in common.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/executor/kernel/kernel_executor.h"

namespace tutti::executor::kernel {

/// Each has a warp at least, and one of the 15 named barriers of a block.
inline constexpr uint32_t kMostLanesPerBlock = std::min(kMostThreadsPerBlock / 32, 15U);

/// Slices begin at multiples of it within a chunk or a transfer, so that vectors stay whole.
inline constexpr uint64_t kSliceAlignment = 16;
/// Bytes of all slices but the last ones.
uint64_t sliceBytes(uint64_t bytes, uint32_t slices);

constexpr uint32_t ceilDivide(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/// One rank's part of a launch.
struct KernelExecutor::Part {
  KernelExecutor* executor;
  RankArguments arguments;
  uint32_t lanes;
  uint32_t mostPorts;     ///< of a step
  uint32_t programBytes;  ///< of shared memory that a lane would use; 0: sends and receives
  LaunchTables::Table table;
  uint32_t mostBlocks = 0;  ///< that the call may have; 0: all
};

/// Those of calls whose messages tell this one: in each number of slices another.
std::vector<uint32_t> callHashesOf(uint32_t told);

/// `lost`: what the proxy says, where it has ended the launch.
Error errorOf(int rank, const Report& report, const std::optional<Error>& lost);

}  // namespace tutti::executor::kernel
