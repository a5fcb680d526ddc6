#pragma once

// Which calls of a group share a launch, and in which order the launches come. Functions of values:
// they change nothing but what they are given.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/communicator/gpu/gpu_work.h"

namespace tutti::communicator {

/// Calls that are launched together, each with a stream: the first, or another, of every rank; and
/// those that follow in the same launch.
struct GpuBatch {
  uint64_t group = 0;
  size_t turn = 0;
  bool waits = false;
  std::vector<GpuWork> works;
};

bool areOne(StreamRef stream, StreamRef other);
bool isOn(const GpuWork& work, StreamRef stream);

/// A group is on all streams that its calls name: of each communicator every launch comes behind
/// what is on them, and before what comes next there.
void joinStreams(std::vector<GpuWork>& works);

/// In the order in which they are to be launched.
std::vector<GpuBatch> batchesOf(std::vector<GpuWork> works);

RankLaunch launchOf(const GpuWork& work, uint64_t capture = 0);

}  // namespace tutti::communicator
