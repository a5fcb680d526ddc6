#pragma once

// One lane of a rank's program, how it waits, and how it gives up. Whatever is waited for lies in
// this device's memory, or in pinned memory of this host. Every so many spins a thread looks
// whether another lane, a peer or the host has given up, and at the clock; so no wait is for ever,
// and one rank's failure ends all.

#include <tutti/cuda/ptx.cuh>

#include "src/executor/kernel/arguments.h"

namespace tutti::executor::kernel {

namespace ptx = ::tutti::cuda::ptx;
using transports::p2p::P2pLink;
using transports::p2p::RankWords;
using ::tutti::cuda::spinHint;

/// How often `parts` go into a number, and what is left. Most often there is one part, and to
/// divide takes as long as to wait for all threads of a lane.
struct Quotient {
  uint32_t times, rest;
};
TUTTI_DEVICE Quotient divided(uint32_t number, uint32_t parts) {
  if (parts == 1) return {number, 0};
  return {number / parts, number % parts};
}

/// Which lane of its block a thread is in, and where there.
TUTTI_DEVICE Quotient seatOf(const Arguments& all) {
  if (all.lanesPerBlock == 1) return {0, threadIdx.x};
  return divided(threadIdx.x, all.threadsPerLane);
}

/// One thread's view of its lane.
struct KernelLane {
  const Arguments& all;
  const RankArguments& rank;
  LaneShared* shared;
  uint32_t slice;
  uint32_t group;                ///< within the block
  uint32_t thread;               ///< within the lane
  uint32_t callHash, operation;  ///< what messages say; of an exchange they are of a transfer
  uint32_t step = 0;
  uint32_t round = 0;
  bool hasFailed = false;

  TUTTI_DEVICE const ProgramHeader* program() const { return shared->tables.program; }
  /// Two sets.
  TUTTI_DEVICE Operand* operands() const { return reinterpret_cast<Operand*>(shared + 1); }
  TUTTI_DEVICE uint32_t threads() const { return all.threadsPerLane; }
  /// All threads of the lane meet. Barrier 0 is the whole block's.
  TUTTI_DEVICE void sync() const { ptx::barSync(1 + group, all.threadsPerLane); }
};

template <class Row>
TUTTI_DEVICE const Row* rowsAt(const ProgramHeader* program, uint32_t offset) {
  return reinterpret_cast<const Row*>(reinterpret_cast<const unsigned char*>(program) + offset);
}

/// What a header said that was not expected.
struct Theirs {
  uint32_t callHash = 0, operation = 0, bytes = 0;
};

/// The first lane to give up tells the host why, and all peers that it has. The others know from
/// it.
TUTTI_DEVICE void giveUp(KernelLane& lane, StopReason reason, int peer, uint32_t bytes = 0,
                         Theirs theirs = {}) {
  const RankArguments& rank = lane.rank;
  lane.hasFailed = true;
  if (ptx::atomCasAcqRelGpu(&rank.words->stop, 0u, uint32_t(reason)) != 0) return;
  Report& report = *rank.report;
  report.reason = reason;
  report.peer = peer;
  report.lane = lane.shared->number;
  report.step = lane.step;
  report.round = lane.round;
  report.bytesArrived = atomicAdd(&lane.shared->bytesArrived, 0);
  report.callHash = lane.callHash;
  report.operation = lane.operation;
  report.bytes = bytes;
  report.theirCallHash = theirs.callHash;
  report.theirOperation = theirs.operation;
  report.theirBytes = theirs.bytes;
  ptx::stReleaseSys(&report.written, 1u);
  if (reason == StopReason::Poisoned) return;
#pragma unroll 1
  for (uint32_t p = 0; p < rank.ranks; ++p)
    if (rank.peers[p].poison != nullptr) ptx::stRelaxedSys(rank.peers[p].poison, rank.rank + 1);
}

/// Of a peer that has given up its rank + 1.
TUTTI_DEVICE uint32_t poisonOf(const RankWords* words) {
  if (const uint32_t from = ptx::ldRelaxedSys(&words->poison); from != 0) return from;
  return words->hostPoison == nullptr ? 0 : ptx::ldRelaxedSys(words->hostPoison);
}

/// To be called in every loop that waits; true when it must end.
TUTTI_DEVICE bool shouldStop(KernelLane& lane, uint32_t spins, int peer) {
  if (spins % lane.all.looksEvery != 0) return false;
  const RankWords* const words = lane.rank.words;
  if (ptx::ldRelaxedGpu(&words->stop) != 0) return lane.hasFailed = true;
  StopReason reason = StopReason::None;
  if (ptx::globalTimer() - lane.shared->began > lane.all.deadlineNs) reason = StopReason::Deadline;
  if (const uint32_t from = poisonOf(words); from != 0) {
    reason = StopReason::Poisoned;
    peer = int(from) - 1;
  }
  if (const uint32_t word = ptx::ldRelaxedSys(lane.rank.stopWord); word != 0) {
    reason = StopReason(word >> 24);
    if ((word & 0xffffff) != 0) peer = int(word & 0xffffff) - 1;
  }
  if (reason != StopReason::None) giveUp(lane, reason, peer);
  return lane.hasFailed;
}

/// Until `*word`, a count that wraps, is `least` or more.
TUTTI_DEVICE bool awaitAtLeast(KernelLane& lane, const uint32_t* word, uint32_t least, int peer) {
  for (uint32_t spins = 1; int32_t(ptx::ldAcquireSys(word) - least) < 0; ++spins) {
    if (shouldStop(lane, spins, peer)) return false;
    spinHint();
  }
  return true;
}

/// Until `*word` is `wanted`.
TUTTI_DEVICE bool awaitEqual(KernelLane& lane, const uint32_t* word, uint32_t wanted, int peer) {
  for (uint32_t spins = 1; ptx::ldAcquireSys(word) != wanted; ++spins) {
    if (shouldStop(lane, spins, peer)) return false;
    spinHint();
  }
  return true;
}

/// Until another lane of this slice has done so many steps of this operation.
TUTTI_DEVICE bool awaitSteps(KernelLane& lane, uint32_t other, uint32_t steps) {
  const uint64_t* const word = lane.rank.progress + lane.slice * lane.program()->lanes + other;
  for (uint32_t spins = 1;; ++spins) {
    const uint64_t seen = ptx::ldAcquireGpu(word);
    if (uint32_t(seen >> 32) == lane.operation && uint32_t(seen) >= steps) return true;
    if (shouldStop(lane, spins, -1)) return false;
    spinHint();
  }
}

}  // namespace tutti::executor::kernel
