#pragma once

// The kernel of sends and receives. Every slice of every edge, that is all transfers to one rank or
// from it, has a lane of its own where there are so many, so all are under way at once and no
// pattern can make a circular wait. Between two ranks transfers match in order.
//
// A slice of a transfer is cut into messages: one by LL, whose header says what the whole transfer
// is (src/base/transfer_key.h) and which is all of a small one, and then slots of Simple;
// between hosts slots alone. Both ends cut alike, and an empty slice is an empty message, so ranks
// that disagree find out by the first.
//
// Bound: bytes read plus bytes written, twice (into slots and out of them), over HBM, and once over
// NVLink; small ones by the latency of one write of a peer's memory.

#include "src/executor/kernel/fold_device.cuh"
#include "src/executor/kernel/launch_device.cuh"
#include "src/executor/kernel/message_device.cuh"

namespace tutti::executor::kernel {

/// What moves bytes that have no type: words where they are aligned.
using Piece = uint32_t;

/// One direction of a link, as its lane counts it.
template <Wire kWire>
struct ExchangeDirection {
  P2pLink& link;
  bool sends;
  uint64_t stride;     ///< of slots
  uint32_t count = 0;  ///< of messages in this launch

  TUTTI_DEVICE uint32_t next() const { return (sends ? link.sent : link.received) + count + 1; }
  TUTTI_DEVICE unsigned char* slots() const { return sends ? link.sendSlots : link.receiveSlots; }
  /// Those that have the payload of a message.
  TUTTI_DEVICE unsigned char* payloadSlots(uint32_t bytes) const {
    if (bytes < link.directBytes) return slots();
    return sends ? link.directSendSlots : link.directReceiveSlots;
  }
  /// For the next launch; by one thread, behind a barrier.
  TUTTI_DEVICE void keep() const { (sends ? link.sent : link.received) += count; }
};

TUTTI_DEVICE Operand operandAt(const unsigned char* at) {
  Operand operand{};
  operand.at = const_cast<unsigned char*>(at);
  const auto address = reinterpret_cast<uint64_t>(at);
  operand.alignment = address % 16 == 0 ? 16 : address % sizeof(Piece) == 0 ? sizeof(Piece) : 1;
  return operand;
}

/// operands[0] to operands[1], by all threads of the lane, behind a barrier.
template <Wire kWire>
TUTTI_DEVICE void copyOperands(KernelLane& lane, uint64_t bytes) {
  Chunk chunk{lane.operands(), lane.operands() + 1};
  chunk.sourceCount = chunk.targetCount = 1;
  chunk.bytes = bytes;
  chunk.isAligned = kWire == Wire::Simple && lane.operands()[0].alignment == 16 &&
                    lane.operands()[1].alignment == 16;
  copyChunk<kWire, Piece>(lane, chunk);
}

/// By one thread: waits for the message or its slot, and says where the bytes lie.
template <Wire kWire>
TUTTI_DEVICE void beginMessage(KernelLane& lane, const ExchangeDirection<kWire>& way, int peer,
                               uint32_t message, unsigned char* slot, const unsigned char* user,
                               uint32_t bytes) {
  if (way.sends)
    awaitFree<kWire>(lane, way.link.credit, slot, message, peer, bytes);
  else
    awaitHeader<kWire>(lane, slot, message, peer, bytes);
  Operand inSlot = operandAt(slotOf(lane, way.payloadSlots(bytes), message, way.stride) + kLine);
  inSlot.flag = message;
  inSlot.inSlot = kWire != Wire::Simple;
  inSlot.peer = int16_t(peer);
  lane.operands()[way.sends ? 1 : 0] = inSlot;
  lane.operands()[way.sends ? 0 : 1] = operandAt(user);
  if (lane.hasFailed) atomicExch(&lane.shared->stoppedWaiting, 1u);
}

/// One message, by all threads. False when the lane has to end.
template <Wire kWire>
TUTTI_DEVICE bool passMessage(KernelLane& lane, ExchangeDirection<kWire>& way, int peer,
                              const unsigned char* user, uint32_t bytes) {
  const uint32_t message = way.next();
  unsigned char* const slot = slotOf(lane, way.slots(), message, way.stride);
  if (lane.thread == 0) beginMessage<kWire>(lane, way, peer, message, slot, user, bytes);
  lane.sync();
  if (lane.shared->stoppedWaiting) return false;
  if (bytes > 0) copyOperands<kWire>(lane, bytes);
  if (lane.hasFailed) atomicExch(&lane.shared->stoppedMoving, 1u);
  lane.sync();
  if (lane.shared->stoppedMoving) return false;
  if (lane.thread == 0) {
    if (!way.sends)
      ptx::stReleaseSys(way.link.peerCredit, message);
    else if (kWire == Wire::Simple)
      tell(lane, slot, message, bytes, bytes);
  }
  ++way.count;
  ++lane.round;
  return true;
}

/// The lane's slice of a transfer.
TUTTI_DEVICE uint64_t sliceBegin(const KernelLane& lane, const TransferCode& transfer) {
  return min(lane.slice * transfer.sliceBytes, transfer.bytes);
}
TUTTI_DEVICE uint64_t sliceSize(const KernelLane& lane, const TransferCode& transfer) {
  return min(transfer.sliceBytes, transfer.bytes - sliceBegin(lane, transfer));
}

/// False when the lane has to end.
TUTTI_DEVICE bool passTransfer(KernelLane& lane, const TransferCode& transfer, int peer,
                               ExchangeDirection<Wire::LL>& quick,
                               ExchangeDirection<Wire::Simple>& bulk) {
  const ExchangeCode& code = lane.rank.exchange;
  lane.callHash = transfer.callHash;
  lane.operation = static_cast<uint32_t>(transfer.bytes);
  lane.round = 0;
  const unsigned char* user =
      (quick.sends ? transfer.from : transfer.to) + sliceBegin(lane, transfer);
  uint64_t left = sliceSize(lane, transfer);
  // To another host all goes in slots, and an empty slice as an empty message.
  bool isOwed = bulk.link.leavesHost;
  if (!isOwed) {
    const auto first = uint32_t(min(uint64_t(code.quickBytes), left));
    if (!passMessage<Wire::LL>(lane, quick, peer, user, first)) return false;
    user += first;
    left -= first;
  }
#pragma unroll 1
  for (; isOwed || left > 0; isOwed = false) {
    const auto bytes = uint32_t(min(uint64_t(code.slotBytes), left));
    if (!passMessage<Wire::Simple>(lane, bulk, peer, user, bytes)) return false;
    user += bytes;
    left -= bytes;
  }
  return true;
}

/// From this rank to itself.
TUTTI_DEVICE void copyTransfer(KernelLane& lane, const TransferCode& transfer) {
  const uint64_t begin = sliceBegin(lane, transfer), bytes = sliceSize(lane, transfer);
  if (lane.thread == 0) {
    lane.operands()[0] = operandAt(transfer.from + begin);
    lane.operands()[1] = operandAt(transfer.to + begin);
  }
  lane.sync();
  if (bytes > 0) copyOperands<Wire::Simple>(lane, bytes);
  lane.sync();
}

/// False when the lane has to end.
TUTTI_DEVICE bool runEdge(KernelLane& lane, const EdgeCode& edge) {
  const RankArguments& rank = lane.rank;
  const uint32_t link = lane.slice * rank.ranks + uint32_t(edge.peer);
  const bool sends = edge.kind == EdgeKind::Send;
  ExchangeDirection<Wire::LL> quick{rank.exchange.quickLinks[link], sends,
                                    rank.exchange.quickStride};
  ExchangeDirection<Wire::Simple> bulk{rank.links[link], sends, lane.all.slotStride};
#pragma unroll 1
  for (lane.step = 0; lane.step != edge.transfers; ++lane.step) {
    const TransferCode transfer = rank.exchange.transfers[edge.firstTransfer + lane.step];
    if (lane.slice >= transfer.slices) continue;
    if (edge.kind == EdgeKind::Self)
      copyTransfer(lane, transfer);
    else if (!passTransfer(lane, transfer, edge.peer, quick, bulk))
      return false;
  }
  lane.sync();  // all have read the counts
  if (lane.thread == 0 && edge.kind != EdgeKind::Self) {
    quick.keep();
    bulk.keep();
  }
  return true;
}

/// What the lane has of the edges: of more than there are lanes for, those that are so many apart.
/// Edges are in the order of how far their ends are apart, so of those that have not ended the
/// nearest have a lane at either end, whatever other ranks have: none waits in a circle. False when
/// the lane has to end.
TUTTI_DEVICE bool runEdges(KernelLane& lane) {
  const ExchangeCode& code = lane.rank.exchange;
  const uint32_t atATime = lane.rank.lanes / code.mostSlices;
#pragma unroll 1
  for (uint32_t i = lane.shared->number / code.mostSlices; i < code.edgeCount; i += atATime)
    if (!runEdge(lane, code.edges[i])) return false;
  return true;
}

/// Blocks as interpret() has them; lanes are those of the first edge, each a slice, and so on.
inline __global__ void __launch_bounds__(kMostThreadsPerBlock, 1)
    exchange(const __grid_constant__ Arguments all) {
  const RankArguments& rank = all.rank[rankOfBlock(all)];
  const ExchangeCode& code = rank.exchange;
  const auto [group, thread] = seatOf(all);
  const uint32_t number = (blockIdx.x - rank.firstBlock) * all.lanesPerBlock + group;
  if (number >= rank.lanes) return;
  auto* const shared = sharedOfLane(all);
  KernelLane lane{.all = all,
                  .rank = rank,
                  .shared = shared,
                  .slice = code.edgeCount > 0 ? number % code.mostSlices : 0,
                  .group = group,
                  .thread = thread};
  if (lane.thread == 0)
    *shared = LaneShared{.number = number, .began = ptx::globalTimer(), .isOver = isOver(rank)};
  if (lane.thread == 0 && number == 0) begin(rank, false);
  lane.sync();
  // A rank that has nothing to do counts the operation all the same.
  const bool hasEnded = !shared->isOver && runEdges(lane);
  lane.sync();  // none of the lane touches anything any more
  if (lane.thread != 0) return;
  if (!hasEnded)
    leaveFailed(rank);
  else if (isLast(rank))
    end(rank);
}

}  // namespace tutti::executor::kernel
