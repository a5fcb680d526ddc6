#pragma once

/// \file
/// What the calls of a communicator are given.
///
/// Counts are elements, never bytes. Buffers hold `count` elements of `type` unless said
/// otherwise. `send == recv` (at the offset named) is in place. Any other overlap throws
/// InvalidArgument. A count of zero moves nothing, but still takes part in the order of calls; its
/// pointers may be null.
///
/// PreMulSum multiplies this rank's input by `scalar`. Ranks may have different scalars. If
/// `scalarAt` is given, the scalar is the element of `type` at that address. It may lie at any
/// address in memory of the buffers' kind or in pinned memory, but not in recv. A 64-bit integer
/// there counts as the nearest double.
///
/// The call reads `scalarAt` when it runs; on a GPU that is behind the earlier work of its stream.
/// Each start of a prepared call and each replay of a graph reads it again. It must not change
/// until the call has ended.

#include <cstddef>
#include <span>

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
  const void* send = nullptr;
  void* recv = nullptr;  ///< may equal send
  size_t count = 0;
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;             ///< of PreMulSum
  Reduction reduction = {};        ///< if given, replaces op and scalar
  const void* scalarAt = nullptr;  ///< if given, address of PreMulSum's scalar; see above
  CallOptions options = {};
};
/// Arguments of Communicator::reduce().
struct ReduceArgs {
  const void* send = nullptr;
  void* recv = nullptr;  ///< written only at the root, may be null elsewhere; may equal send
  size_t count = 0;
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  int root = 0;
  Reduction reduction = {};
  const void* scalarAt = nullptr;
  CallOptions options = {};
};
/// Arguments of Communicator::broadcast().
struct BroadcastArgs {
  const void* send = nullptr;  ///< read only at the root
  void* recv = nullptr;        ///< may equal send
  size_t count = 0;
  DataType type = DataType::Float32;
  int root = 0;
  CallOptions options = {};
};
/// Arguments of Communicator::allGather().
struct AllGatherArgs {
  const void* send = nullptr;  ///< count elements
  void* recv = nullptr;        ///< size() * count elements; in place: send == recv + rank() * count
  size_t count = 0;
  DataType type = DataType::Float32;
  CallOptions options = {};
};
/// Arguments of Communicator::reduceScatter().
struct ReduceScatterArgs {
  const void* send = nullptr;  ///< size() * count elements
  void* recv = nullptr;        ///< count elements; in place: recv == send + rank() * count
  size_t count = 0;
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  Reduction reduction = {};
  const void* scalarAt = nullptr;
  CallOptions options = {};
};

/// Arguments of Communicator::allGatherV(). `counts` and `offsets` must be the same on all ranks.
struct AllGatherVArgs {
  const void* send = nullptr;       ///< counts[rank()] elements
  void* recv = nullptr;             ///< all blocks; in place: send == recv + offsets[rank()]
  std::span<const size_t> counts;   ///< elements of each rank's block; may be 0
  std::span<const size_t> offsets;  ///< where blocks begin in recv, in elements; empty: one after
                                    ///< another. Blocks must not overlap.
  DataType type = DataType::Float32;
  CallOptions options = {};
};
/// Arguments of Communicator::reduceScatterV(). `counts` and `offsets` must be the same on all
/// ranks.
struct ReduceScatterVArgs {
  const void* send = nullptr;       ///< all blocks
  void* recv = nullptr;             ///< counts[rank()] elements; in place: recv == send +
                                    ///< offsets[rank()]
  std::span<const size_t> counts;   ///< elements of each rank's block; may be 0
  std::span<const size_t> offsets;  ///< where blocks begin in send, in elements; empty: one after
                                    ///< another
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  Reduction reduction = {};
  const void* scalarAt = nullptr;
  CallOptions options = {};
};
/// Arguments of Communicator::gather().
struct GatherArgs {
  const void* send = nullptr;  ///< count elements
  void* recv = nullptr;        ///< only at the root: size() * count elements, in order of rank;
                               ///< in place at the root: send == recv + rank() * count
  size_t count = 0;
  DataType type = DataType::Float32;
  int root = 0;
  CallOptions options = {};
};
/// Arguments of Communicator::scatter().
struct ScatterArgs {
  const void* send = nullptr;  ///< only at the root: size() * count elements, in order of rank
  void* recv = nullptr;  ///< count elements; in place at the root: recv == send + rank() * count
  size_t count = 0;
  DataType type = DataType::Float32;
  int root = 0;
  CallOptions options = {};
};
/// Arguments of Communicator::allToAll().
struct AllToAllArgs {
  const void* send = nullptr;  ///< size() * count elements: block q is for rank q
  void* recv = nullptr;        ///< size() * count elements: block q is from rank q; may equal send
  size_t count = 0;            ///< elements of one block
  DataType type = DataType::Float32;
  CallOptions options = {};
};
/// Arguments of Communicator::scan().
struct ScanArgs {
  const void* send = nullptr;
  void* recv = nullptr;  ///< the reduction over ranks 0 to rank(); may equal send
  size_t count = 0;
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;  ///< any but Avg
  double scalar = 1.0;
  Reduction reduction = {};
  const void* scalarAt = nullptr;
  CallOptions options = {};
};

/// Arguments of Communicator::send().
struct SendArgs {
  const void* send = nullptr;
  size_t count = 0;
  DataType type = DataType::Float32;
  int peer = 0;  ///< the receiver; this rank itself only in a group that also receives from it
};
/// Arguments of Communicator::receive().
struct ReceiveArgs {
  void* recv = nullptr;
  size_t count = 0;
  DataType type = DataType::Float32;
  int peer = 0;  ///< the sender
};
/// Arguments of Communicator::allToAllV(). Every rank sends a block to each rank, itself included.
/// Both sides must agree: sendCounts[q] on this rank equals recvCounts[rank()] on rank q, and the
/// type is the same.
struct AllToAllVArgs {
  const void* send = nullptr;
  std::span<const size_t> sendCounts;   ///< elements for each rank
  std::span<const size_t> sendOffsets;  ///< where blocks begin, in elements; empty: one after
                                        ///< another
  void* recv = nullptr;
  std::span<const size_t> recvCounts;   ///< elements from each rank
  std::span<const size_t> recvOffsets;  ///< as sendOffsets
  DataType type = DataType::Float32;
};

/// Of a prepared Communicator::barrier(), which has no arguments.
struct BarrierArgs {};

}  // namespace tutti
