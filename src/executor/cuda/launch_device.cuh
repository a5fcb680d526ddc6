#pragma once

// How a launch begins and ends: which rank a block is of, and what its last lane does.

#include "src/executor/cuda/wait_device.cuh"

namespace tutti::executor::cuda {

TUTTI_DEVICE const RankArguments& rankOfBlock(const Arguments& all) {
  uint32_t r = all.ranks - 1;
  while (blockIdx.x < all.rank[r].firstBlock) --r;
  return all.rank[r];
}

/// By one thread of a rank's launch: tells the host.
TUTTI_DEVICE void begin(const RankArguments& rank, bool isCollective) {
  ptx::stRelaxedSys(&rank.counts->begun, 2 * (rank.words->completed + 1) + isCollective);
}

/// To be called once by every lane, when it is done. One that is alone need not ask, nor wait until
/// what it wrote has arrived.
TUTTI_DEVICE bool isLast(const Lane& lane, uint32_t lanes) {
  if (lanes == 1) return true;
  const uint32_t before = ptx::atomAddAcqRelGpu(&lane.rank.words->lanesDone, 1u);
  return before + 1 == lanes;
}

/// By the last lane: tells the host. What the launch wrote is seen by the event behind it, and the
/// count need not arrive later, for which it would wait a microsecond; but of a graph's replay the
/// host knows by the count alone that memory may be given back.
TUTTI_DEVICE void end(const RankArguments& rank) {
  rank.words->lanesDone = 0;
  rank.words->completed += 1;
  if (rank.tableEnded != nullptr) ptx::stReleaseSys(rank.tableEnded, 1u);
  ptx::stRelaxedSys(&rank.counts->collectives, rank.words->operation);
  if (rank.isReplayed != 0)
    ptx::stReleaseSys(&rank.counts->completed, rank.words->completed);
  else
    ptx::stRelaxedSys(&rank.counts->completed, rank.words->completed);
}

}  // namespace tutti::executor::cuda
