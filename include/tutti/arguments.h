#pragma once

/// \file
/// What the calls of a communicator are given.
///
/// Counts are elements, never bytes. `send == recv` (at the offset named) is in place. Any other
/// overlap throws InvalidArgument. A count of zero moves nothing, but still takes part in the order
/// of calls; its pointers may be null.
///
/// `send` and `recv` say their element type, if they are made of typed memory: see tutti/buffer.h.
/// `type` says it for memory that has none. The call throws InvalidArgument if nothing says the
/// type, or if two of them say different types.
///
/// `count` may be left out if the buffer that the struct names is a span: its size says how many.
/// The call throws InvalidArgument if nothing says the count, or if a span is smaller than what the
/// call reads or writes there.
///
/// PreMulSum multiplies this rank's input by `scalar`. Ranks may have different scalars. If
/// `scalarAt` is given, the scalar is the element of the call's type at that address. It may lie at
/// any address in memory of the buffers' kind or in pinned memory, but not in recv. A 64-bit
/// integer there counts as the nearest double. The call throws InvalidArgument if `scalarAt` is a
/// span without room for one element.
///
/// The call reads `scalarAt` when it runs; on a GPU that is behind the earlier work of its stream.
/// Each start of a prepared call and each replay of a graph reads it again. It must not change
/// until the call has ended.

#include <cstddef>
#include <optional>
#include <span>

#include <tutti/buffer.h>
#include <tutti/reduction.h>
#include <tutti/types.h>

namespace tutti {

/// What one collective may ask for. The same on all ranks.
struct CallOptions {
  /// Forces an algorithm for this call, as CommunicatorOptions::algorithm does for all; null or "":
  /// none. The call throws InvalidArgument if the algorithm does not exist for it.
  const char* algorithm = nullptr;
  /// Then the library chooses instead.
  bool ifPossible = false;
  /// The most thread blocks of this call's kernel, at least as many as its plan needs. 0: as many
  /// as the communicator's.
  int gpuBlocks = 0;
};

/// Arguments of Communicator::allReduce().
struct AllReduceArgs {
  ConstBuffer send = {};
  MutableBuffer recv = {};           ///< may equal send
  std::optional<size_t> count = {};  ///< not set: the size of send
  std::optional<DataType> type = {};
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;        ///< of PreMulSum
  Reduction reduction = {};   ///< if given, replaces op and scalar
  ConstBuffer scalarAt = {};  ///< if given, address of PreMulSum's scalar; see above
  CallOptions options = {};
};
/// Arguments of Communicator::reduce().
struct ReduceArgs {
  ConstBuffer send = {};
  MutableBuffer recv = {};  ///< written only at the root, may be null elsewhere; may equal send
  std::optional<size_t> count = {};  ///< not set: the size of send
  std::optional<DataType> type = {};
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  int root = 0;
  Reduction reduction = {};
  ConstBuffer scalarAt = {};
  CallOptions options = {};
};
/// Arguments of Communicator::broadcast().
struct BroadcastArgs {
  ConstBuffer send = {};             ///< read only at the root
  MutableBuffer recv = {};           ///< may equal send
  std::optional<size_t> count = {};  ///< not set: the size of recv
  std::optional<DataType> type = {};
  int root = 0;
  CallOptions options = {};
};
/// Arguments of Communicator::allGather().
struct AllGatherArgs {
  ConstBuffer send = {};    ///< count elements
  MutableBuffer recv = {};  ///< size() * count elements; in place: send == recv + rank() * count
  std::optional<size_t> count = {};  ///< not set: the size of send
  std::optional<DataType> type = {};
  CallOptions options = {};
};
/// Arguments of Communicator::reduceScatter().
struct ReduceScatterArgs {
  ConstBuffer send = {};             ///< size() * count elements
  MutableBuffer recv = {};           ///< count elements; in place: recv == send + rank() * count
  std::optional<size_t> count = {};  ///< not set: the size of recv
  std::optional<DataType> type = {};
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  Reduction reduction = {};
  ConstBuffer scalarAt = {};
  CallOptions options = {};
};

/// Arguments of Communicator::allGatherV(). `counts` and `offsets` must be the same on all ranks.
struct AllGatherVArgs {
  ConstBuffer send = {};                 ///< counts[rank()] elements
  MutableBuffer recv = {};               ///< all blocks; in place: send == recv + offsets[rank()]
  std::span<const size_t> counts = {};   ///< elements of each rank's block; may be 0
  std::span<const size_t> offsets = {};  ///< where blocks begin in recv, in elements; empty: one
                                         ///< after another. Blocks must not overlap.
  std::optional<DataType> type = {};
  CallOptions options = {};
};
/// Arguments of Communicator::reduceScatterV(). `counts` and `offsets` must be the same on all
/// ranks.
struct ReduceScatterVArgs {
  ConstBuffer send = {};                 ///< all blocks
  MutableBuffer recv = {};               ///< counts[rank()] elements; in place: recv == send +
                                         ///< offsets[rank()]
  std::span<const size_t> counts = {};   ///< elements of each rank's block; may be 0
  std::span<const size_t> offsets = {};  ///< where blocks begin in send, in elements; empty: one
                                         ///< after another
  std::optional<DataType> type = {};
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  Reduction reduction = {};
  ConstBuffer scalarAt = {};
  CallOptions options = {};
};
/// Arguments of Communicator::gather().
struct GatherArgs {
  ConstBuffer send = {};    ///< count elements
  MutableBuffer recv = {};  ///< only at the root: size() * count elements, in order of rank;
                            ///< in place at the root: send == recv + rank() * count
  std::optional<size_t> count = {};  ///< not set: the size of send
  std::optional<DataType> type = {};
  int root = 0;
  CallOptions options = {};
};
/// Arguments of Communicator::scatter().
struct ScatterArgs {
  ConstBuffer send = {};    ///< only at the root: size() * count elements, in order of rank
  MutableBuffer recv = {};  ///< count elements; in place at the root: recv == send + rank() * count
  std::optional<size_t> count = {};  ///< not set: the size of recv
  std::optional<DataType> type = {};
  int root = 0;
  CallOptions options = {};
};
/// Arguments of Communicator::allToAll().
struct AllToAllArgs {
  ConstBuffer send = {};    ///< size() * count elements: block q is for rank q
  MutableBuffer recv = {};  ///< size() * count elements: block q is from rank q; may equal send
  std::optional<size_t> count = {};  ///< elements of one block; not set: the size of send / size()
  std::optional<DataType> type = {};
  CallOptions options = {};
};
/// Arguments of Communicator::scan().
struct ScanArgs {
  ConstBuffer send = {};
  MutableBuffer recv = {};           ///< the reduction over ranks 0 to rank(); may equal send
  std::optional<size_t> count = {};  ///< not set: the size of send
  std::optional<DataType> type = {};
  ReduceOp op = ReduceOp::Sum;  ///< any but Avg
  double scalar = 1.0;
  Reduction reduction = {};
  ConstBuffer scalarAt = {};
  CallOptions options = {};
};

/// Arguments of Communicator::send().
struct SendArgs {
  ConstBuffer send = {};
  std::optional<size_t> count = {};  ///< not set: the size of send
  std::optional<DataType> type = {};
  int peer = 0;  ///< the receiver; this rank itself only in a group that also receives from it
};
/// Arguments of Communicator::receive().
struct ReceiveArgs {
  MutableBuffer recv = {};
  std::optional<size_t> count = {};  ///< not set: the size of recv
  std::optional<DataType> type = {};
  int peer = 0;  ///< the sender
};
/// Arguments of Communicator::allToAllV(). Every rank sends a block to each rank, itself included.
/// Both sides must agree: sendCounts[q] on this rank equals recvCounts[rank()] on rank q, and the
/// type is the same.
struct AllToAllVArgs {
  ConstBuffer send = {};
  std::span<const size_t> sendCounts = {};   ///< elements for each rank
  std::span<const size_t> sendOffsets = {};  ///< where blocks begin, in elements; empty: one after
                                             ///< another
  MutableBuffer recv = {};
  std::span<const size_t> recvCounts = {};   ///< elements from each rank
  std::span<const size_t> recvOffsets = {};  ///< as sendOffsets
  std::optional<DataType> type = {};
};

/// Of a prepared Communicator::barrier(), which has no arguments.
struct BarrierArgs {};

}  // namespace tutti
