#pragma once

// How the arguments of a call are checked, and become the values that executors take. What can be
// refused is refused here, before the call has its number. Functions without state: any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <tutti/buffer.h>
#include <tutti/types.h>

#include "src/communicator/placement.h"
#include "src/executor/call.h"
#include "src/executor/exchange.h"

namespace tutti::communicator {

/// Which rank of how many makes it.
struct Caller {
  int rank = 0, size = 1;
};

/// A buffer, as the caller's arguments name it.
struct NamedBuffer {
  const char* name = "send";
  ConstBuffer memory = {};
};

// Each throws InvalidArgument when the call cannot be right.

/// The element type of `call`: what the caller has said, or what its buffers are of.
DataType typeOf(const char* call, std::optional<DataType> said,
                std::span<const NamedBuffer> buffers);
/// The elements of one of `blocks` in the buffer, if the caller has not said how many.
uint64_t countOf(const char* call, std::optional<size_t> said, const NamedBuffer& buffer,
                 size_t blocks, DataType type);
/// Spans hold what the call reads and writes there.
void requireRoom(const executor::CollectiveCall& call, Caller by, const ConstBuffer& send,
                 const ConstBuffer& recv);
/// A span for PreMulSum's scalar holds one. Null without a size is none.
void requireScalar(const executor::CollectiveCall& call, const ConstBuffer& scalarAt);
/// Where the call runs.
CallPlacement placementOf(const executor::CollectiveCall& call, Caller by, Device own);
/// The call with blocks that have sizes and places of their own, in elements; no places: one after
/// another.
executor::CollectiveCall withBlocks(executor::CollectiveCall call, Caller by,
                                    std::span<const size_t> counts,
                                    std::span<const size_t> offsets);
/// Checked arguments of `call` as a transfer.
executor::Transfer transferOf(const char* call, Caller by, const NamedBuffer& buffer,
                              std::optional<size_t> count, std::optional<DataType> type, int peer);
/// One with each rank, likewise.
std::vector<executor::Transfer> transfersOf(const NamedBuffer& buffer, Caller by,
                                            std::span<const size_t> counts,
                                            std::span<const size_t> offsets, DataType type);

}  // namespace tutti::communicator
