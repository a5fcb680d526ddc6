#pragma once

// A collective call as a value: what the host's backend and the GPU's take, and how the arguments
// of a call are checked. What can be refused is refused here, before the call has its number.
// Values and functions without state: any thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <tutti/reduction.h>
#include <tutti/types.h>

#include "src/communicator/placement.h"
#include "src/communicator/recorder.h"
#include "src/executor/host/exchange_operation.h"
#include "src/plan/plan.h"

namespace tutti::communicator {

struct Call {
  CallFacts facts;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  double scalar = 1.0;
  const void* scalarAt = nullptr;
  Reduction reduction = {};                                          // instead of facts.op
  std::shared_ptr<const std::vector<plan::Block>> blocks = nullptr;  // where they differ
};

/// Which rank of how many makes it.
struct Caller {
  int rank = 0, size = 1;
};

// Each throws InvalidArgument when the call cannot be right.

/// Where the call runs.
CallPlacement placementOf(const Call& call, Caller by, Device own);
/// The call with blocks that have sizes and places of their own, in elements; no places: one after
/// another.
Call withBlocks(Call call, Caller by, std::span<const size_t> counts,
                std::span<const size_t> offsets);
/// Checked arguments as a transfer; `what` is "send" or "recv".
executor::Transfer transferOf(const char* what, Caller by, const void* data, uint64_t count,
                              DataType type, int peer);
/// One with each rank, likewise.
std::vector<executor::Transfer> transfersOf(const char* what, Caller by, const void* data,
                                            std::span<const size_t> counts,
                                            std::span<const size_t> offsets, DataType type);

}  // namespace tutti::communicator
