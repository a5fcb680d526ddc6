#pragma once

// The probe of a pair: each rank writes a pattern into the other's memory and raises a flag behind
// it, as every later message will be written; the other looks at each byte as soon as it sees the
// flag. A pair whose bytes are others, or come late or never, is not used. One block for each peer.

#include <tutti/cuda/ptx.cuh>

#include "transports/p2p/probe.h"

namespace tutti::transports::p2p {

namespace ptx = ::tutti::cuda::ptx;

/// Word `index` of what rank `from` writes to rank `to`.
TUTTI_DEVICE uint32_t patternWord(uint32_t seed, uint32_t from, uint32_t to, uint32_t index) {
  uint32_t x = seed ^ (from * 0x9e3779b9u) ^ (to * 0x85ebca6bu) ^ (index * 0xc2b2ae35u);
  x ^= x >> 16;
  x *= 0x7feb352du;
  return x ^ x >> 15;
}

TUTTI_DEVICE void writePattern(const ProbeArguments& all, const ProbeTarget& pair, uint32_t peer) {
  auto* const words = reinterpret_cast<uint4*>(pair.there + kLine);
  for (uint32_t i = threadIdx.x; i < all.words / 4; i += blockDim.x) {
    uint4 value;
    value.x = patternWord(all.seed, all.rank, peer, 4 * i);
    value.y = patternWord(all.seed, all.rank, peer, 4 * i + 1);
    value.z = patternWord(all.seed, all.rank, peer, 4 * i + 2);
    value.w = patternWord(all.seed, all.rank, peer, 4 * i + 3);
    words[i] = value;
  }
  __syncthreads();
  if (threadIdx.x == 0) ptx::stReleaseSys(reinterpret_cast<uint32_t*>(pair.there), all.seed);
}

/// Whether the flag came in time.
TUTTI_DEVICE bool awaitPattern(const ProbeArguments& all, const ProbeTarget& pair) {
  const auto* const flag = reinterpret_cast<const uint32_t*>(pair.here);
  const uint64_t began = ptx::globalTimer();
  while (ptx::ldAcquireSys(flag) != all.seed) {
    if (ptx::globalTimer() - began > all.deadlineNs) return false;
    if (all.isOver != nullptr && ptx::ldRelaxedSys(all.isOver) != 0) return false;
    ::tutti::cuda::spinHint();
  }
  return true;
}

inline __global__ void __launch_bounds__(kProbeThreads)
    probePeers(const __grid_constant__ ProbeArguments all) {
  TUTTI_SHARED(uint32_t, inTime, [1]);
  TUTTI_SHARED(unsigned, firstWrong, [1]);
  const uint32_t peer = blockIdx.x;
  const ProbeTarget pair = all.pairs[peer];
  if (pair.there == nullptr) return;
  writePattern(all, pair, peer);
  if (threadIdx.x == 0) {
    firstWrong[0] = all.words;
    inTime[0] = awaitPattern(all, pair);
  }
  __syncthreads();
  const auto* const words = reinterpret_cast<const uint32_t*>(pair.here + kLine);
  for (uint32_t i = threadIdx.x; inTime[0] && i < all.words; i += blockDim.x)
    if (words[i] != patternWord(all.seed, peer, all.rank, i)) atomicMin(firstWrong, i);
  __syncthreads();
  if (threadIdx.x != 0) return;
  ProbeFinding& finding = all.findings[peer];
  finding.firstWrong = firstWrong[0];
  finding.state = !inTime[0]                  ? ProbeState::Late
                  : firstWrong[0] < all.words ? ProbeState::Wrong
                                              : ProbeState::Right;
}

}  // namespace tutti::transports::p2p
