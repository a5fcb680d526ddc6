#pragma once

// Which messages a rank could send from user memory, without a copy in a slot.

#include <optional>
#include <vector>

#include "src/plan/plan.h"

namespace tutti::plan {

/// By lane and step: the local port whose chunks hold the step's whole message once the step is
/// done, and keep it, for no later step of this rank's round writes there. Nothing where there is
/// none, or no message with data. A port among the sources holds what is sent unless it is scaled
/// on the way.
using Holders = std::vector<std::vector<std::optional<Port>>>;
Holders holdersOf(const PlanSpec& spec, const Program& program, int rank, bool inPlace);

/// The chunk as it is counted in the larger of the two buffers, when In and Out share memory: one
/// is a block of the other, or they are the same block.
struct SharedChunk {
  Buffer buffer;
  uint32_t chunk;
};
SharedChunk sharedChunk(const PlanSpec& spec, int rank, Buffer buffer, uint32_t chunk);

}  // namespace tutti::plan
