#pragma once

// One step of a lane: its threads wait for its messages, credits and dependencies, each for another
// port; they find the operands; all move the data; then each tells one peer. Two barriers a step.

#include "src/executor/kernel/fold_device.cuh"
#include "src/executor/kernel/message_device.cuh"

namespace tutti::executor::kernel {

/// The number of the message that a channel's port sends or takes in this round.
TUTTI_DEVICE uint32_t messageOf(const KernelLane& lane, const PortCode& port, uint32_t before) {
  return before + lane.round * port.perRound + port.ordinal + 1;
}

/// A message to another host is one of Simple whatever the launch's wire: there the latency of a
/// network counts, and data is twice as dense without flags.
template <Wire kWire>
TUTTI_DEVICE bool isSimple(const P2pLink& link) {
  return kWire == Wire::Simple || link.leavesHost;
}

template <Wire kWire>
TUTTI_DEVICE const P2pLink& linkAt(const KernelLane& lane, uint32_t index) {
  const P2pLink& link = lane.shared->tables.links[index];
  if (kWire == Wire::Simple || !link.leavesHost) return link;
  return lane.rank.simpleLinks[lane.slice * lane.rank.linksPerSlice + index];
}

template <Wire kWire>
TUTTI_DEVICE unsigned char* slotAt(const KernelLane& lane, const P2pLink& link,
                                   unsigned char* slots, uint32_t message) {
  return slotOf(lane, slots, message,
                isSimple<kWire>(link) ? lane.all.simpleStride : lane.all.slotStride);
}

/// As plan::PlanShape::extent(), and of it the lane's slice.
struct StepPlace {
  uint64_t offset, bytes;
};
/// Messages name blocks as the buffer that has all of them does.
TUTTI_DEVICE BlockCode blockOf(const KernelLane& lane, PortKind kind, PortBuffer buffer,
                               uint32_t block) {
  const ShapeCode& shape = lane.rank.shape;
  const BlockCode* const blocks = lane.shared->tables.blocks;
  if (blocks == nullptr)
    return {block * shape.blockBytes, shape.blockBytes, shape.chunkBytes, shape.sliceBytes};
  if (kind == PortKind::Channel || (buffer == PortBuffer::In ? shape.manyIn : shape.manyOut))
    return blocks[block];
  BlockCode own = blocks[lane.rank.rank];
  own.offset = 0;
  return own;
}

TUTTI_DEVICE StepPlace placeOf(const KernelLane& lane, const PortCode& port, uint32_t index) {
  const ShapeCode& shape = lane.rank.shape;
  const uint32_t chunk = port.chunk + index;
  const auto [number, division] = divided(chunk, shape.divisions);
  const BlockCode block = blockOf(lane, port.kind, port.buffer, number);
  const uint64_t begin =
      min((uint64_t{lane.round} * shape.divisions + division) * block.chunkBytes, block.bytes);
  const uint64_t end = min(begin + block.chunkBytes, block.bytes);
  const uint64_t first = min(lane.slice * block.sliceBytes, end - begin);
  const uint64_t bytes = min(block.sliceBytes, end - begin - first);
  if (port.kind == PortKind::Local && port.buffer == PortBuffer::Scratch)
    return {(uint64_t(chunk) * shape.slices + lane.slice) * shape.sliceBytes, bytes};
  return {block.offset + begin + first, bytes};
}

TUTTI_DEVICE uint32_t messageBytes(const KernelLane& lane, const PortCode& port) {
  uint64_t bytes = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < port.chunks; ++i) bytes += placeOf(lane, port, i).bytes;
  return uint32_t(bytes);
}

/// Where a message's payload ends in a slot of Simple: chunks are apart by the size of a whole one.
TUTTI_DEVICE uint32_t messageReach(const KernelLane& lane, const PortCode& port) {
  uint64_t reach = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < port.chunks; ++i)
    if (const uint64_t bytes = placeOf(lane, port, i).bytes; bytes > 0)
      reach = i * lane.rank.shape.sliceBytes + bytes;
  return uint32_t(reach);
}

/// The slots that have the message's payload: to other hosts large ones have slots of their own.
TUTTI_DEVICE unsigned char* payloadSlots(const KernelLane& lane, const P2pLink& link,
                                         const PortCode& port, bool isSource) {
  if (link.directBytes != transports::p2p::kNoMessage &&
      messageReach(lane, port) >= link.directBytes)
    return isSource ? link.directReceiveSlots : link.directSendSlots;
  return isSource ? link.receiveSlots : link.sendSlots;
}

/// Distance of a message's chunks in its slot.
template <Wire kWire>
TUTTI_DEVICE uint64_t chunkStride(const P2pLink& link, uint64_t sliceBytes) {
  if (isSimple<kWire>(link)) return sliceBytes;
  if (kWire == Wire::LL) return 2 * sliceBytes;
  return (sliceBytes + kLinePayload - 1) / kLinePayload * kLine;
}

/// Waits until the message is there, or its header in LL, and checks whose it is.
template <Wire kWire>
TUTTI_DEVICE void awaitMessage(KernelLane& lane, const PortCode& port) {
  const P2pLink& link = linkAt<kWire>(lane, port.link);
  const uint32_t message = messageOf(lane, port, link.received), bytes = messageBytes(lane, port);
  const unsigned char* const slot = slotAt<kWire>(lane, link, link.receiveSlots, message);
  if (isSimple<kWire>(link))
    awaitHeader<Wire::Simple>(lane, slot, message, port.rank, bytes);
  else
    awaitHeader<kWire>(lane, slot, message, port.rank, bytes);
}

template <Wire kWire>
TUTTI_DEVICE void awaitSlot(KernelLane& lane, const PortCode& port) {
  const P2pLink& link = linkAt<kWire>(lane, port.link);
  const uint32_t message = messageOf(lane, port, link.sent), bytes = messageBytes(lane, port);
  unsigned char* const slot = slotAt<kWire>(lane, link, link.sendSlots, message);
  if (isSimple<kWire>(link))
    awaitFree<Wire::Simple>(lane, link.credit, slot, message, port.rank, bytes);
  else
    awaitFree<kWire>(lane, link.credit, slot, message, port.rank, bytes);
}

TUTTI_DEVICE void awaitDependency(KernelLane& lane, const DependencyCode& after) {
  const auto* const lanes = rowsAt<LaneCode>(lane.program(), lane.program()->laneOffset);
  const uint64_t steps = uint64_t{lane.round} * lanes[after.lane].steps + after.step + 1;
  awaitSteps(lane, after.lane, uint32_t(steps));
}

/// Thread by thread another port or dependency.
template <Wire kWire>
TUTTI_DEVICE void awaitStep(KernelLane& lane, const StepCode& step, const PortCode* ports) {
  const uint32_t portCount = uint32_t(step.sources) + step.targets;
  const auto* const afters =
      rowsAt<DependencyCode>(lane.program(), lane.program()->afterOffset) + step.firstAfter;
#pragma unroll 1
  for (uint32_t i = lane.thread; i < portCount + step.afters && !lane.hasFailed;
       i += lane.all.threadsPerLane) {
    if (i >= portCount)
      awaitDependency(lane, afters[i - portCount]);
    else if (ports[i].kind != PortKind::Channel)
      continue;
    else if (i < step.sources)
      awaitMessage<kWire>(lane, ports[i]);
    else
      awaitSlot<kWire>(lane, ports[i]);
  }
  if (lane.hasFailed) atomicExch(&lane.shared->stoppedWaiting, 1u);
}

TUTTI_DEVICE unsigned char* baseOf(const KernelLane& lane, const PortCode& port) {
  if (port.kind == PortKind::Mapped) {
    const transports::p2p::LinkEntry& entry =
        lane.rank.peers[port.rank].entries[lane.shared->entries % 2];
    return reinterpret_cast<unsigned char*>(port.buffer == PortBuffer::In ? entry.in : entry.out);
  }
  if (port.buffer == PortBuffer::Scratch) return lane.rank.scratch;
  return port.buffer == PortBuffer::In ? const_cast<unsigned char*>(lane.rank.in) : lane.rank.out;
}

template <int kSize>
TUTTI_DEVICE uint16_t alignmentOf(const unsigned char* at) {
  const auto address = reinterpret_cast<uint64_t>(at);
  return address % 16 == 0 ? 16 : address % kSize == 0 ? kSize : 1;
}

/// Where the port's `index`th chunk lies.
template <Wire kWire, int kSize>
TUTTI_DEVICE Operand operandOf(const KernelLane& lane, const PortCode& port, uint32_t index,
                               bool isSource) {
  Operand operand{};
  if (port.kind == PortKind::Channel) {
    const P2pLink& link = linkAt<kWire>(lane, port.link);
    operand.flag = messageOf(lane, port, isSource ? link.received : link.sent);
    operand.inSlot = !isSimple<kWire>(link);
    operand.peer = int16_t(port.rank);
    unsigned char* const slots = payloadSlots(lane, link, port, isSource);
    operand.at = slotAt<kWire>(lane, link, slots, operand.flag) + kLine +
                 index * chunkStride<kWire>(link, lane.rank.shape.sliceBytes);
  } else {
    operand.at = baseOf(lane, port) + placeOf(lane, port, index).offset;
  }
  const Arithmetic& arithmetic = lane.rank.arithmetic;
  operand.isScaled = arithmetic.op == kPreMulSum && arithmetic.reduces && isSource &&
                     port.kind == PortKind::Local && port.buffer == PortBuffer::In &&
                     (arithmetic.readsScalar || arithmetic.scalar != 1.0);
  operand.alignment = alignmentOf<kSize>(operand.at);
  return operand;
}

/// Those ports of a step that have chunks, in order; by the threads, one port each.
template <Wire kWire, int kSize>
TUTTI_DEVICE void findOperands(const KernelLane& lane, const StepCode& step, const PortCode* ports,
                               uint32_t index, Operand* operands) {
#pragma unroll 1
  for (uint32_t i = lane.thread; i < uint32_t(step.sources) + step.targets;
       i += lane.all.threadsPerLane) {
    if (ports[i].chunks == 0) continue;
    uint32_t at = i < step.sources ? 0 : step.sources;
#pragma unroll 1
    for (uint32_t j = at; j < i; ++j) at += ports[j].chunks > 0;
    operands[at] = operandOf<kWire, kSize>(lane, ports[i], index, i < step.sources);
  }
}

/// Whether all operands are aligned and lie in memory as they are.
TUTTI_DEVICE bool areAligned(const Operand* operands, uint32_t count) {
#pragma unroll 1
  for (uint32_t i = 0; i < count; ++i)
    if (operands[i].alignment != 16 || operands[i].inSlot) return false;
  return true;
}

TUTTI_DEVICE uint32_t withChunks(const PortCode* ports, uint32_t count) {
  uint32_t some = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < count; ++i) some += ports[i].chunks > 0;
  return some;
}

/// How the sources of a chunk are folded.
TUTTI_DEVICE void setArithmetic(const KernelLane& lane, Chunk& chunk, StepFold fold,
                                bool completes) {
  const Arithmetic& arithmetic = lane.rank.arithmetic;
  chunk.type = arithmetic.type;
  chunk.op = arithmetic.op;
  // Two operands give the same by either fold.
  chunk.isTree = fold == StepFold::Canonical && chunk.sourceCount > 2 &&
                 (arithmetic.deterministic || !isReducedType(arithmetic.type));
  chunk.isRounded = arithmetic.deterministic != 0;
  chunk.divideBy = completes && arithmetic.op == kAvg ? int(lane.rank.ranks) : 1;
}

template <Wire kWire, int kSize>
TUTTI_DEVICE void moveChunk(KernelLane& lane, const StepCode& step, const PortCode* ports,
                            const Operand* operands, uint64_t bytes) {
  Chunk chunk{operands, operands + step.sources};
  chunk.sourceCount = withChunks(ports, step.sources);
  chunk.targetCount = withChunks(ports + step.sources, step.targets);
  chunk.bytes = bytes;
  chunk.isAligned =
      areAligned(chunk.sources, chunk.sourceCount) && areAligned(chunk.targets, chunk.targetCount);
  setArithmetic(lane, chunk, step.fold, step.completes);
  chunk.scalar = &lane.shared->scalar;
  if (chunk.sourceCount == 1 && chunk.divideBy == 1 && !operands[0].isScaled)
    copyChunk<kWire, typename WordOf<kSize>::Type>(lane, chunk);
  else
    foldChunk<kWire, kSize>(lane, chunk);
}

/// Behind the barrier that ends the step: each thread tells one peer. What all threads of the lane
/// wrote and read is before it.
template <Wire kWire>
TUTTI_DEVICE void publish(KernelLane& lane, const StepCode& step, const PortCode* ports) {
#pragma unroll 1
  for (uint32_t i = lane.thread; i < uint32_t(step.sources) + step.targets;
       i += lane.all.threadsPerLane) {
    const PortCode& port = ports[i];
    if (port.kind != PortKind::Channel) continue;
    const P2pLink& link = linkAt<kWire>(lane, port.link);
    if (i < step.sources) {
      // The words of LL that all threads have polled they have used ahead of the barrier, so they
      // have been read; other memory the credit says nothing of.
      if (isSimple<kWire>(link))
        ptx::stReleaseSys(link.peerCredit, messageOf(lane, port, link.received));
      else
        ptx::stRelaxedSys(link.peerCredit, messageOf(lane, port, link.received));
    } else if (isSimple<kWire>(link)) {
      const uint32_t message = messageOf(lane, port, link.sent);
      tell(lane, slotAt<kWire>(lane, link, link.sendSlots, message), message,
           messageBytes(lane, port), link.leavesHost ? messageReach(lane, port) : 0);
    }
  }
  if (step.awaited && lane.thread == 0) {
    const uint64_t steps = uint64_t{lane.round} * lane.shared->code.steps + lane.step + 1;
    ptx::stReleaseGpu(lane.rank.progress + lane.shared->number,
                      uint64_t(lane.operation) << 32 | uint32_t(steps));
  }
}

/// False when the lane has to end.
template <Wire kWire, int kSize>
TUTTI_DEVICE bool runStep(KernelLane& lane, const StepCode& step) {
  const auto* const ports =
      rowsAt<PortCode>(lane.program(), lane.program()->portOffset) + step.firstPort;
  const bool hasData = step.dataPort < step.sources + step.targets;
  const PortCode* const data = hasData ? ports + step.dataPort : nullptr;
  awaitStep<kWire>(lane, step, ports);
#pragma unroll 1
  for (uint32_t chunk = 0; chunk < (hasData ? data->chunks : 1); ++chunk) {
    // The other set may still be read.
    Operand* const operands = lane.operands() + chunk % 2 * lane.all.mostPorts;
    findOperands<kWire, kSize>(lane, step, ports, chunk, operands);
    lane.sync();
    if (chunk == 0 && lane.shared->stoppedWaiting) return false;
    if (!hasData) break;
    const uint64_t bytes = placeOf(lane, *data, chunk).bytes;
    if (bytes > 0) moveChunk<kWire, kSize>(lane, step, ports, operands, bytes);
  }
  if (lane.hasFailed) atomicExch(&lane.shared->stoppedMoving, 1u);
  lane.sync();
  if (lane.shared->stoppedMoving) return false;
  publish<kWire>(lane, step, ports);
  return true;
}

}  // namespace tutti::executor::kernel
