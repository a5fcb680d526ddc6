#pragma once

// The kernel that runs a rank's program. README.md beside it tells its story.

#include "src/executor/kernel/one_shot_device.cuh"

namespace tutti::executor::kernel {

/// Whether this rank or a peer has given up, asked where no wait has asked; the host's word is far.
TUTTI_DEVICE bool hasGivenUp(KernelLane& lane) {
  const RankWords* const words = lane.rank.words;
  if (const uint32_t from = poisonOf(words); from != 0)
    giveUp(lane, StopReason::Poisoned, int(from) - 1);
  lane.hasFailed |= ptx::ldRelaxedGpu(&words->stop) != 0;
  return lane.hasFailed;
}

/// Tells all peers where this rank's buffers are, by lane 0; and waits, in every lane, until all
/// have told theirs. What a rank that has given up has told is no address any more: its caller may
/// have the buffers back.
TUTTI_DEVICE bool exchangeEntries(KernelLane& lane) {
  const RankArguments& rank = lane.rank;
  const uint32_t number = lane.shared->entries + 1;
#pragma unroll 1
  for (uint32_t p = lane.thread; p < rank.ranks && lane.shared->number == 0;
       p += lane.all.threadsPerLane) {
    if (p == rank.rank) continue;
    transports::p2p::LinkEntry& entry = rank.peers[p].entriesThere[lane.shared->entries % 2];
    entry.in = reinterpret_cast<uint64_t>(rank.in);
    entry.out = reinterpret_cast<uint64_t>(rank.out);
    entry.callHash = lane.callHash;
    entry.operation = lane.operation;
    ptx::stReleaseSys(&entry.number, number);
  }
#pragma unroll 1
  for (uint32_t p = lane.thread; p < rank.ranks && !lane.hasFailed; p += lane.all.threadsPerLane) {
    if (p == rank.rank) continue;
    const transports::p2p::LinkEntry& entry = rank.peers[p].entries[lane.shared->entries % 2];
    if (!awaitAtLeast(lane, &entry.number, number, int(p)) || hasGivenUp(lane)) break;
    if (entry.callHash != lane.callHash || entry.operation != lane.operation)
      giveUp(lane, StopReason::Mismatch, int(p), 0, {entry.callHash, entry.operation, 0});
  }
  if (lane.hasFailed) atomicExch(&lane.shared->stoppedMoving, 1u);
  lane.sync();
  return !lane.shared->stoppedMoving;
}

template <Wire kWire, int kSize>
TUTTI_DEVICE bool runRounds(KernelLane& lane) {
  const auto* const steps =
      rowsAt<StepCode>(lane.program(), lane.program()->stepOffset) + lane.shared->code.firstStep;
  const auto rounds = uint32_t(lane.rank.shape.rounds);
#pragma unroll 1
  for (lane.round = 0; lane.round != rounds; ++lane.round)
#pragma unroll 1
    for (lane.step = 0; lane.step != lane.shared->code.steps; ++lane.step)
      if (!runStep<kWire, kSize>(lane, steps[lane.step])) return false;
  return true;
}

/// Counts what the lane has sent and received, for the next call.
template <Wire kWire>
TUTTI_DEVICE void countMessages(const KernelLane& lane) {
  lane.sync();  // all have read the counts
  const RankArguments& rank = lane.rank;
  const auto* const links =
      rowsAt<LaneLink>(lane.program(), lane.program()->linkOffset) + lane.shared->code.firstLink;
  const auto rounds = uint32_t(rank.shape.rounds);
#pragma unroll 1
  for (uint32_t i = lane.thread; i < lane.shared->code.links; i += lane.all.threadsPerLane) {
    const P2pLink& before = linkAt<kWire>(lane, links[i].link);
    P2pLink* const kept =
        kWire != Wire::Simple && before.leavesHost ? rank.simpleLinks : rank.links;
    P2pLink& link = kept[lane.slice * rank.linksPerSlice + links[i].link];
    if (links[i].sends > 0) ptx::stRelaxedGpu(&link.sent, before.sent + rounds * links[i].sends);
    if (links[i].receives > 0)
      ptx::stRelaxedGpu(&link.received, before.received + rounds * links[i].receives);
  }
}

/// By all threads of a lane, of whole words. Other lanes may count on links of theirs meanwhile,
/// which this one does not use.
template <class Row>
TUTTI_DEVICE void copyRows(const KernelLane& lane, void* to, const Row* from, uint32_t bytes) {
  auto* const words = static_cast<uint32_t*>(to);
#pragma unroll 1
  for (uint32_t i = lane.thread; i < bytes / 4; i += lane.threads())
    words[i] = ptx::ldRelaxedGpu(reinterpret_cast<const uint32_t*>(from) + i);
}

/// Every step asks the program and the links, one answer for the next question, and each would come
/// from the second-level cache, for what is waited for empties the first; and blocks lie in pinned
/// memory. So a lane has copies of what there is room for, all under way together.
TUTTI_DEVICE void copyTables(const KernelLane& lane) {
  const Arguments& all = lane.all;
  const RankArguments& rank = lane.rank;
  LaneTables tables{rank.program, rank.links + lane.slice * rank.linksPerSlice, rank.blocks};
  auto* to = reinterpret_cast<unsigned char*>(lane.operands() + 2 * all.mostPorts);
  if (rank.blocks != nullptr && all.sharedBlocks != 0) {
    copyRows(lane, to, rank.blocks, rank.ranks * uint32_t(sizeof(BlockCode)));
    tables.blocks = reinterpret_cast<const BlockCode*>(to);
  }
  to += all.sharedBlocks * sizeof(BlockCode);
  if (all.sharedLinks != 0) {
    copyRows(lane, to, tables.links, rank.linksPerSlice * uint32_t(sizeof(P2pLink)));
    tables.links = reinterpret_cast<const P2pLink*>(to);
  }
  to += all.sharedLinks * sizeof(P2pLink);
  if (all.sharedProgramBytes != 0) {
    copyRows(lane, to, rank.program, rank.program->bytes);
    tables.program = reinterpret_cast<const ProgramHeader*>(to);
  }
  if (lane.thread == 0) lane.shared->tables = tables;
}

/// By a lane that has a part in the rank's call: all its steps; false where it has given up.
template <Wire kWire, int kSize>
TUTTI_DEVICE bool runSteps(const Arguments& all, const RankArguments& rank, LaneShared* shared) {
  const uint32_t number = shared->number;
  const auto [slice, numberInSlice] = divided(number, rank.program->lanes);
  const auto [group, thread] = seatOf(all);
  KernelLane lane{.all = all,
                  .rank = rank,
                  .shared = shared,
                  .slice = slice,
                  .group = group,
                  .thread = thread,
                  .callHash = rank.callHash,
                  .operation = rank.words->operation};
  copyTables(lane);
  if (lane.thread == 0) {
    shared->isOver = isOver(rank);
    shared->code = rowsAt<LaneCode>(rank.program, rank.program->laneOffset)[numberInSlice];
    shared->entries = rank.words->entries;
    const Arithmetic& arithmetic = rank.arithmetic;
    shared->scalar = arithmetic.readsScalar && !shared->isOver
                         ? scalarAt<kSize>(arithmetic.scalarAt, arithmetic.type)
                         : arithmetic.scalar;
  }
  lane.sync();
  if (lane.thread == 0 && number == 0) begin(rank, true);
  if (shared->isOver) return false;
  if (lane.program()->maps && !exchangeEntries(lane)) return false;
  if (!runRounds<kWire, kSize>(lane)) return false;
  countMessages<kWire>(lane);
  return true;
}

/// By all lanes of the launch; false where one has given up.
template <Wire kWire, int kSize>
TUTTI_DEVICE bool runCall(const Arguments& all, const RankArguments& rank, LaneShared* shared) {
  if constexpr (kWire == Wire::LL)
    if (isAtOnce(all, rank)) return shared->number > 0 || runAtOnce<kSize>(all, rank, shared);
  return shared->number >= rank.program->lanes * rank.shape.slices ||
         runSteps<kWire, kSize>(all, rank, shared);
}

/// Blocks of `lanesPerBlock` lanes of `threadsPerLane` threads, each rank's from `firstBlock` on,
/// first all lanes of slice 0; all of them must be resident together. Dynamic shared memory:
/// sharedBytesPerLane for each lane. kSize is the size of an element. Of several calls of a rank
/// each has the first lanes, as many as it needs, when all have left the one before. What lies in
/// shared memory meanwhile leaves the folds their registers.
template <Wire kWire, int kSize>
__global__ void __launch_bounds__(kMostThreadsPerBlock, 1)
    interpret(const __grid_constant__ Arguments all) {
  const auto [group, thread] = seatOf(all);
  const bool isFirst = thread == 0;
  auto* const shared = sharedOfLane(all);
  const uint32_t first = rankOfBlock(all);
  const uint32_t number = (blockIdx.x - all.rank[first].firstBlock) * all.lanesPerBlock + group;
  if (number >= all.rank[first].lanes) return;
  if (isFirst) *shared = LaneShared{.number = number, .call = first, .began = ptx::globalTimer()};
  ptx::barSync(1 + group, all.threadsPerLane);
#pragma unroll 1
  for (;;) {
    const RankArguments& rank = all.rank[__shfl_sync(~0U, shared->call, 0)];
    if (!runCall<kWire, kSize>(all, rank, shared)) {
      ptx::barSync(1 + group, all.threadsPerLane);  // none of the lane touches anything any more
      if (isFirst) leaveFailed(rank);
      return;
    }
    if (rank.next != 0) ptx::barSync(1 + group, all.threadsPerLane);  // all have counted
    if (isFirst) {
      const uint32_t followed = rank.next != 0 ? rank.words->followed : 0;
      if (isLast(rank)) {
        if (!rank.isOneShot) rank.words->entries += rank.program->maps;
        rank.words->operation += 1;
        end(rank);
      }
      if (rank.next != 0)
        *shared = LaneShared{.number = shared->number,
                             .call = rank.next,
                             .stoppedWaiting = !awaitEnd(rank, followed, all.looksEvery),
                             .began = ptx::globalTimer()};
    }
    if (rank.next == 0) return;
    ptx::barSync(1 + group, all.threadsPerLane);
    if (shared->stoppedWaiting) return;
  }
}

}  // namespace tutti::executor::kernel
