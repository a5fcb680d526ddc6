#pragma once

// How the arguments of a call are checked, and become the values that executors take. What can be
// refused is refused here, before the call has its number. Functions without state: any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tutti/types.h>

#include "src/communicator/placement.h"
#include "src/executor/call.h"
#include "src/executor/exchange.h"

namespace tutti::communicator {

/// Which rank of how many makes it.
struct Caller {
  int rank = 0, size = 1;
};

// Each throws InvalidArgument when the call cannot be right.

/// Where the call runs.
CallPlacement placementOf(const executor::CollectiveCall& call, Caller by, Device own);
/// The call with blocks that have sizes and places of their own, in elements; no places: one after
/// another.
executor::CollectiveCall withBlocks(executor::CollectiveCall call, Caller by,
                                    std::span<const size_t> counts,
                                    std::span<const size_t> offsets);
/// Checked arguments as a transfer; `what` is "send" or "recv".
executor::Transfer transferOf(const char* what, Caller by, const void* data, uint64_t count,
                              DataType type, int peer);
/// One with each rank, likewise.
std::vector<executor::Transfer> transfersOf(const char* what, Caller by, const void* data,
                                            std::span<const size_t> counts,
                                            std::span<const size_t> offsets, DataType type);

}  // namespace tutti::communicator
