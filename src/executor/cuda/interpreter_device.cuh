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
  for (uint32_t p = lane.thread; p < rank.ranks && lane.number == 0; p += lane.all.threadsPerLane) {
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
  const uint64_t rounds = lane.rank.shape.rounds;
#pragma unroll 1
  for (lane.round = 0; lane.round != rounds; ++lane.round)
#pragma unroll 1
    for (lane.step = 0; lane.step != lane.code.steps; ++lane.step)
      if (!runStep<kWire, kSize>(lane, steps[lane.step])) return false;
  return true;
}

/// Counts what the lane has sent and received, for the next launch. The last lane ends the rank's
/// operation.
template <Wire kWire>
TUTTI_DEVICE void finish(const Lane& lane) {
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
  if (lane.thread == 0 && isLast(lane, rank.program->lanes * rank.shape.slices)) {
    rank.words->entries += rank.program->maps;
    rank.words->operation += 1;
    end(rank);
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

/// Blocks of `lanesPerBlock` lanes of `threadsPerLane` threads, each rank's from `firstBlock` on,
/// first all lanes of slice 0; all of them must be resident together. Dynamic shared memory:
/// sharedBytesPerLane for each lane. kSize is the size of an element.
template <Wire kWire, int kSize>
__global__ void __launch_bounds__(kMostThreadsPerBlock, 1)
    interpret(const __grid_constant__ Arguments all) {
  const RankArguments& rank = rankOfBlock(all);
  const uint32_t group = threadIdx.x / all.threadsPerLane;
  const uint32_t number = (blockIdx.x - rank.firstBlock) * all.lanesPerBlock + group;
  const uint32_t lanes = rank.program->lanes, slice = number / lanes;
  if (slice >= rank.shape.slices) return;
  auto* const shared = reinterpret_cast<LaneShared*>(::tutti::cuda::dynamicShared<unsigned char>() +
                                                     group * all.sharedBytesPerLane);
  Lane lane{all,
            rank,
            rowsAt<LaneCode>(rank.program, rank.program->laneOffset)[number % lanes],
            shared,
            reinterpret_cast<Operand*>(shared + 1),
            rank.links + slice * rank.linksPerSlice,
            rank.progress + slice * lanes,
            blocksOf(all, rank, shared),
            number,
            slice,
            group,
            threadIdx.x % all.threadsPerLane,
            rank.callHash,
            rank.words->operation,
            rank.words->entries};
  lane.began = ptx::globalTimer();
  if (lane.thread == 0) *shared = LaneShared{};
  if (lane.thread == 0 && number == 0) begin(rank, true);
  lane.sync();
  if (rank.program->maps && !exchangeEntries(lane)) return;
  if (runRounds<kWire, kSize>(lane)) finish<kWire>(lane);
}

}  // namespace tutti::executor::cuda
