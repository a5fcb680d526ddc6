#pragma once

// How a launch begins and ends: which rank a block is of, what the last lane of a call does, and
// how the calls of a rank follow each other.

#include "src/executor/kernel/wait_device.cuh"

namespace tutti::executor::kernel {

TUTTI_DEVICE uint32_t rankOfBlock(const Arguments& all) {
  uint32_t r = all.ranks - 1;
  while (blockIdx.x < all.rank[r].firstBlock) --r;
  return r;
}

TUTTI_DEVICE LaneShared* sharedOfLane(const Arguments& all) {
  return reinterpret_cast<LaneShared*>(::tutti::cuda::dynamicShared<unsigned char>() +
                                       seatOf(all).times * all.sharedBytesPerLane);
}

/// Whether a call that begins is to touch nothing: one before it has given up, or the host has
/// taken it back (KernelExecutor::discard()).
TUTTI_DEVICE bool isOver(const RankArguments& rank) {
  return (ptx::ldRelaxedGpu(&rank.words->stop) | ptx::ldRelaxedGpu(&rank.words->discarded)) != 0;
}

/// By one thread of a rank's call: tells the host.
TUTTI_DEVICE void begin(const RankArguments& rank, bool isCollective) {
  ptx::stRelaxedSys(&rank.counts->begun, 2 * (rank.words->completed + 1) + isCollective);
}

/// What a lane that has given up adds to those that are done with the call, beside 1.
inline constexpr uint32_t kFailedLane = 1 << 16;

/// By the last lane that is done with a call of which some have given up: tells the host that none
/// touches a buffer any more.
TUTTI_DEVICE void endFailed(const RankArguments& rank) {
  rank.words->lanesDone = 0;
  ptx::stReleaseSys(&rank.counts->failed, 1u);
}

/// To be called once by every lane, when it is done with the call: true for the last one, where
/// none has given up. One that is alone need not ask, nor wait until what it wrote has arrived.
TUTTI_DEVICE bool isLast(const RankArguments& rank) {
  if (rank.lanes == 1) return true;
  const uint32_t before = ptx::atomAddAcqRelGpu(&rank.words->lanesDone, 1u);
  if (before >= kFailedLane && before % kFailedLane + 1 == rank.lanes) endFailed(rank);
  return before + 1 == rank.lanes;
}

/// The same of one that has given up, or was over when it began: who waits for this call's end, to
/// begin another, hears of it by the same word.
TUTTI_DEVICE void leaveFailed(const RankArguments& rank) {
  ptx::atomCasAcqRelGpu(&rank.words->stop, 0u, uint32_t(StopReason::Aborted));
  const uint32_t before = ptx::atomAddAcqRelGpu(&rank.words->lanesDone, kFailedLane + 1);
  if (before % kFailedLane + 1 == rank.lanes) endFailed(rank);
}

/// By the last lane: tells the host. What the call wrote is seen by the event behind the launch,
/// and the count need not arrive later, for which it would wait a microsecond; but of a graph's
/// replay the host knows by the count alone that memory may be given back.
TUTTI_DEVICE void end(const RankArguments& rank) {
  rank.words->lanesDone = 0;
  rank.words->completed += 1;
  if (rank.tableEnded != nullptr) ptx::stReleaseSys(rank.tableEnded, 1u);
  ptx::stRelaxedSys(&rank.counts->collectives, rank.words->operation);
  if (rank.isReplayed != 0)
    ptx::stReleaseSys(&rank.counts->completed, rank.words->completed);
  else
    ptx::stRelaxedSys(&rank.counts->completed, rank.words->completed);
  if (rank.next != 0) ptx::stReleaseGpu(&rank.words->followed, rank.words->followed + 1);
}

/// In every lane of a rank that has another call behind this one: until the last lane has ended it.
/// `followed` is what the word was before this lane was counted, without which the call cannot end.
/// False where it may never, as a lane of this call, or of an earlier launch, has given up. Where
/// one of the next call has, this call has ended before, so that is asked behind it: this lane is
/// to be counted there. Only lanes that have work look at the clock: they know whom they wait for.
TUTTI_DEVICE bool awaitEnd(const RankArguments& rank, uint32_t followed, uint32_t looksEvery) {
  for (uint32_t spins = 1;; ++spins) {
    const bool isStopped = spins % looksEvery == 0 && ptx::ldAcquireGpu(&rank.words->stop) != 0;
    if (ptx::ldAcquireGpu(&rank.words->followed) != followed) return true;
    if (isStopped) return false;
    spinHint();
  }
}

}  // namespace tutti::executor::kernel
