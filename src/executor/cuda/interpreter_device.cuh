#pragma once

// The kernel that runs a rank's program. README.md beside it tells its story.

#include "src/executor/cuda/launch_device.cuh"
#include "src/executor/cuda/step_device.cuh"

namespace tutti::executor::cuda {

/// Tells all peers where this rank's buffers are, by lane 0; and waits, in every lane, until all
/// have told theirs.
TUTTI_DEVICE bool exchangeEntries(Lane& lane) {
  const RankArguments& rank = lane.rank;
  const uint32_t number = lane.entries + 1;
#pragma unroll 1
  for (uint32_t p = lane.thread; p < rank.ranks && lane.shared->number == 0;
       p += lane.all.threadsPerLane) {
    if (p == rank.rank) continue;
    transports::p2p::Entry& entry = rank.peers[p].entriesThere[lane.entries % 2];
    entry.in = reinterpret_cast<uint64_t>(rank.in);
    entry.out = reinterpret_cast<uint64_t>(rank.out);
    entry.callHash = lane.callHash;
    entry.operation = lane.operation;
    ptx::stReleaseSys(&entry.number, number);
  }
#pragma unroll 1
  for (uint32_t p = lane.thread; p < rank.ranks && !lane.hasFailed; p += lane.all.threadsPerLane) {
    if (p == rank.rank) continue;
    const transports::p2p::Entry& entry = rank.peers[p].entries[lane.entries % 2];
    if (!awaitAtLeast(lane, &entry.number, number, int(p))) break;
    if (entry.callHash != lane.callHash || entry.operation != lane.operation)
      giveUp(lane, StopReason::Mismatch, int(p), 0, {entry.callHash, entry.operation, 0});
  }
  if (lane.hasFailed) atomicExch(&lane.shared->stoppedMoving, 1u);
  lane.sync();
  return !lane.shared->stoppedMoving;
}

template <Wire kWire, int kSize>
TUTTI_DEVICE bool runRounds(Lane& lane) {
  const auto* const steps =
      rowsAt<StepCode>(lane.rank.program, lane.rank.program->stepOffset) + lane.code.firstStep;
  const auto rounds = uint32_t(lane.rank.shape.rounds);
#pragma unroll 1
  for (lane.round = 0; lane.round != rounds; ++lane.round)
#pragma unroll 1
    for (lane.step = 0; lane.step != lane.code.steps; ++lane.step)
      if (!runStep<kWire, kSize>(lane, steps[lane.step])) return false;
  return true;
}

/// Counts what the lane has sent and received, for the next call.
template <Wire kWire>
TUTTI_DEVICE void countMessages(const Lane& lane) {
  lane.sync();  // all have read the counts
  const RankArguments& rank = lane.rank;
  const auto* const links =
      rowsAt<LaneLink>(rank.program, rank.program->linkOffset) + lane.code.firstLink;
  const auto rounds = uint32_t(rank.shape.rounds);
#pragma unroll 1
  for (uint32_t i = lane.thread; i < lane.code.links; i += lane.all.threadsPerLane) {
    Link& link = linkAt<kWire>(lane, links[i].link);
    if (links[i].sends > 0) link.sent += rounds * links[i].sends;
    if (links[i].receives > 0) link.received += rounds * links[i].receives;
  }
}

/// Every step asks where blocks lie, and pinned memory is far away, so each lane has a copy.
TUTTI_DEVICE const BlockCode* blocksOf(const Arguments& all, const RankArguments& rank,
                                       LaneShared* shared) {
  if (rank.blocks == nullptr || all.sharedBlocks == 0) return rank.blocks;
  auto* const copies =
      reinterpret_cast<BlockCode*>(reinterpret_cast<Operand*>(shared + 1) + 2 * all.mostPorts);
#pragma unroll 1
  for (uint32_t i = threadIdx.x % all.threadsPerLane; i < rank.ranks; i += all.threadsPerLane)
    copies[i] = rank.blocks[i];
  return copies;
}

/// A lane's part in one of its rank's calls; false where it has given up.
template <Wire kWire, int kSize>
TUTTI_DEVICE bool runCall(const Arguments& all, const RankArguments& rank, LaneShared* shared) {
  const uint32_t number = shared->number, lanes = rank.program->lanes, slice = number / lanes;
  Lane lane{all,
            rank,
            rowsAt<LaneCode>(rank.program, rank.program->laneOffset)[number % lanes],
            shared,
            rank.links + slice * rank.linksPerSlice,
            blocksOf(all, rank, shared),
            slice,
            threadIdx.x / all.threadsPerLane,
            threadIdx.x % all.threadsPerLane,
            rank.callHash,
            rank.words->operation,
            rank.words->entries};
  if (lane.thread == 0) shared->began = ptx::globalTimer();
  if (lane.thread == 0 && number == 0) begin(rank, true);
  lane.sync();
  if (rank.program->maps && !exchangeEntries(lane)) return false;
  if (!runRounds<kWire, kSize>(lane)) return false;
  countMessages<kWire>(lane);
  return true;
}

/// Blocks of `lanesPerBlock` lanes of `threadsPerLane` threads, each rank's from `firstBlock` on,
/// first all lanes of slice 0; all of them must be resident together. Dynamic shared memory:
/// sharedBytesPerLane for each lane. kSize is the size of an element. Of several calls of a rank
/// each has the first lanes, as many as it needs, when all have left the one before. What lies in
/// shared memory meanwhile leaves the folds their registers.
template <Wire kWire, int kSize>
__global__ void __launch_bounds__(kMostThreadsPerBlock, 1)
    interpret(const __grid_constant__ Arguments all) {
  const uint32_t group = threadIdx.x / all.threadsPerLane;
  const bool isFirst = threadIdx.x % all.threadsPerLane == 0;
  auto* const shared = sharedOfLane(all);
  const uint32_t first = rankOfBlock(all);
  const uint32_t number = (blockIdx.x - all.rank[first].firstBlock) * all.lanesPerBlock + group;
  if (number >= all.rank[first].lanes) return;
  if (isFirst) *shared = LaneShared{.number = number, .call = first};
  ptx::barSync(1 + group, all.threadsPerLane);
#pragma unroll 1
  for (;;) {
    const RankArguments& rank = all.rank[__shfl_sync(~0U, shared->call, 0)];
    if (shared->number < rank.program->lanes * rank.shape.slices &&
        !runCall<kWire, kSize>(all, rank, shared))
      return;
    if (rank.next != 0) ptx::barSync(1 + group, all.threadsPerLane);  // all have counted
    if (isFirst) {
      const uint32_t followed = rank.next != 0 ? rank.words->followed : 0;
      if (isLast(rank)) {
        rank.words->entries += rank.program->maps;
        rank.words->operation += 1;
        end(rank);
      }
      if (rank.next != 0)
        *shared = LaneShared{.number = shared->number,
                             .call = rank.next,
                             .stoppedWaiting = !awaitEnd(rank, followed, all.looksEvery)};
    }
    if (rank.next == 0) return;
    ptx::barSync(1 + group, all.threadsPerLane);
    if (shared->stoppedWaiting) return;
  }
}

}  // namespace tutti::executor::cuda
