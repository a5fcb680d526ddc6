#pragma once

// A short AllReduce at once: the plan in which every rank sends its input to all others and folds
// what they send, by LL, in one slice and one round. The messages are those that the steps would
// send and take (step_device.cuh), so a rank may do the one and a peer the other. But what steps
// ask one after the other is asked side by side. A thread has 16 bytes of one peer's messages, or
// their headers: it stores what is its own, and then waits for the peer's. One barrier, and what
// has come is folded from shared memory.
//
// Bound: an answer of the second-level cache, the way of a store to a peer, and that of the answer
// to the peer's thread that waits for it.

#include "src/executor/kernel/launch_device.cuh"
#include "src/executor/kernel/step_device.cuh"

namespace tutti::executor::kernel {

/// Of a message, one of them the header.
TUTTI_DEVICE uint32_t piecesOf(const RankArguments& rank) {
  return 1 + (uint32_t(rank.shape.blockBytes) + 15) / 16;
}

/// Whether there is a thread for every piece, and room for what comes.
TUTTI_DEVICE bool isAtOnce(const Arguments& all, const RankArguments& rank) {
  const uint32_t pieces = piecesOf(rank);
  return rank.isOneShot && (rank.ranks - 1) * pieces <= all.threadsPerLane &&
         rank.ranks * (pieces - 1) * sizeof(uint4) <= all.sharedProgramBytes;
}

/// By all threads: the operands of the fold, of which all but this rank's own have come to
/// `received`, in the order of ranks.
template <int kSize>
TUTTI_DEVICE void findOneShotOperands(const KernelLane& lane, uint4* received, uint32_t packs) {
  const RankArguments& rank = lane.rank;
  Operand* const operands = lane.operands();
#pragma unroll 1
  for (uint32_t r = lane.thread; r <= rank.ranks; r += lane.threads()) {
    Operand operand{};
    operand.at = reinterpret_cast<unsigned char*>(received + r * packs);
    if (r == rank.rank) operand.at = const_cast<unsigned char*>(rank.in);
    if (r == rank.ranks) operand.at = rank.out;
    operand.alignment = alignmentOf<kSize>(operand.at);
    operands[r] = operand;
  }
}

template <int kSize>
TUTTI_DEVICE void foldOneShot(KernelLane& lane) {
  const RankArguments& rank = lane.rank;
  Chunk chunk{lane.operands(), lane.operands() + rank.ranks};
  chunk.sourceCount = rank.ranks;
  chunk.targetCount = 1;
  chunk.bytes = rank.shape.blockBytes;
  chunk.isAligned = false;
  setArithmetic(lane, chunk, StepFold::Canonical, true);
  foldParts<Wire::LL, kSize>(lane, chunk, lane.thread);
}

/// What this rank gives.
template <int kSize>
TUTTI_DEVICE uint4 ownPart(const RankArguments& rank, const Part& part) {
  Operand own{};
  own.at = const_cast<unsigned char*>(rank.in);
  own.alignment = alignmentOf<kSize>(own.at);
  return loadMemory<typename WordOf<kSize>::Type>(own, part);
}

/// A header, or a part of one or two words.
TUTTI_DEVICE void sendPiece(unsigned char* to, const uint4& value, uint32_t words, uint32_t sent) {
  sendWords(to, value.x, value.y, sent);
  if (words > 1) sendWords(to + 16, value.z, value.w, sent);
}

/// By the rank's only lane; false where it has given up.
template <int kSize>
TUTTI_DEVICE bool runAtOnce(const Arguments& all, const RankArguments& rank, LaneShared* shared) {
  const auto [group, thread] = seatOf(all);
  KernelLane lane{.all = all,
                  .rank = rank,
                  .shared = shared,
                  .slice = 0,
                  .group = group,
                  .thread = thread,
                  .callHash = rank.callHash,
                  .operation = rank.words->operation,
                  .hasFailed = isOver(rank)};
  const auto bytes = uint32_t(rank.shape.blockBytes);
  const uint32_t packs = piecesOf(rank) - 1, others = rank.ranks - 1;
  const auto [piece, other] = divided(thread, others);  // first the headers, then from the front
  const bool isHeader = piece == 0, hasPiece = piece <= packs;
  const uint32_t peer = other + (other >= rank.rank);
  P2pLink& link = rank.links[peer];
  const Part part = partAt<Wire::LL>(isHeader ? 0 : piece - 1, packs, bytes);
  const uint32_t words = isHeader || part.bytes > 8 ? 2 : 1;
  const uint64_t offset = isHeader ? 0 : kLine + part.slotOffset;
  auto* const arrived = reinterpret_cast<uint4*>(lane.operands() + 2 * all.mostPorts);
  uint32_t sent = 0, received = 0;
  if (thread == lane.threads() - 1) begin(rank, true);  // who waits for nobody, as a rule
  if (hasPiece && !lane.hasFailed) {
    sent = ptx::ldRelaxedGpu(&link.sent) + 1;
    received = ptx::ldRelaxedGpu(&link.received) + 1;
    const uint4 value =
        isHeader ? make_uint4(lane.callHash, lane.operation, bytes, 0) : ownPart<kSize>(rank, part);
    const auto* const credit =
        reinterpret_cast<const uint32_t*>(rank.oneShot.credits + peer * kLine);
    if (awaitAtLeast(lane, credit, sent - all.slotCount, int(peer)))
      sendPiece(slotOf(lane, link.sendSlots, sent, all.slotStride) + offset, value, words, sent);
  }
  findOneShotOperands<kSize>(lane, arrived, packs);
  lane.step = 1;
  if (hasPiece && !lane.hasFailed) {
    const unsigned char* const from =
        slotOf(lane, link.receiveSlots, received, all.slotStride) + offset;
    const uint4 value = awaitWords(lane, from, words, received, int(peer));
    if (!isHeader)
      arrived[peer * packs + piece - 1] = value;
    else if (!lane.hasFailed)
      checkHeader(lane, int(peer), bytes, {value.x, value.y, value.z});
  }
  // Not the word that tells threads of the call before that they may end: some may still read it.
  if (lane.hasFailed) atomicExch(&shared->stoppedMoving, 1u);
  lane.sync();
  if (shared->stoppedMoving) return false;
  foldOneShot<kSize>(lane);
  if (isHeader) {  // all threads have taken what the peer has sent
    ptx::stRelaxedSys(link.peerCredit, received);
    ptx::stRelaxedGpu(&link.sent, sent);
    ptx::stRelaxedGpu(&link.received, received);
  }
  lane.sync();  // the sums are there, and credits given, when the call is counted
  return true;
}

}  // namespace tutti::executor::kernel
