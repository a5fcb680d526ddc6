#pragma once

// Ring AllReduce over flags in memory: P ranks, each a launch; block c is channel c and has a share
// of the array, cut into P chunks. In 2 (P - 1) steps a chunk is sent to the next rank and one is
// taken from the previous: first added, then copied. A rank writes into the next one's inbox of
// kSlots slots, raises its flag, and waits for credit before it writes a slot again.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::kernels {

using namespace cuda;

constexpr int kSlots = 2;

enum class RingBug {
  None,
  NoBarrierBeforeFlag,  // the flag is raised while other threads still write
  RelaxedFlag,          // ... without the order of a release
  RelaxedLoad,          // the flag is read without the order of an acquire
  NoCredit,             // a slot is written while the next rank still reads it
  TailDropped,
  NoBarrierBeforeCredit  // a slot is given back while other threads still read it
};

struct RingArguments {
  float* data;
  float *inbox, *nextInbox;           // kSlots slots of slotCount elements for each channel
  uint64_t *flag, *nextFlag;          // steps that have arrived, per channel
  uint64_t *credit, *previousCredit;  // steps that the receiver has read, per channel
  uint64_t count, slotCount;
  int rank, ranks;
};

struct RingChunk {
  uint64_t begin, end;
};

/// Chunk `index` of the channel's share.
template <RingBug kBug>
TUTTI_DEVICE RingChunk ringChunk(const RingArguments& ring, int index) {
  const uint64_t share = (ring.count + gridDim.x - 1) / gridDim.x;
  const uint64_t begin = min(share * blockIdx.x, ring.count), end = min(begin + share, ring.count);
  const uint64_t ranks = uint64_t(ring.ranks);
  const uint64_t size =
      kBug == RingBug::TailDropped ? (end - begin) / ranks : (end - begin + ranks - 1) / ranks;
  const uint64_t at = min(begin + size * uint64_t(index), end);
  return {at, min(at + size, end)};
}

TUTTI_DEVICE void waitUntil(const uint64_t* word, uint64_t least) {
  while (ptx::ldAcquireSys(word) < least) spinHint();
}

template <RingBug kBug>
TUTTI_DEVICE void ringSend(const RingArguments& ring, float* slot, RingChunk chunk, uint64_t step) {
  if (kBug != RingBug::NoCredit && threadIdx.x == 0 && step >= kSlots)
    waitUntil(ring.credit + blockIdx.x, step + 1 - kSlots);
  __syncthreads();
  for (uint64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x)
    slot[i - chunk.begin] = ring.data[i];
  if (kBug != RingBug::NoBarrierBeforeFlag) __syncthreads();
  if (threadIdx.x != 0) return;
  if (kBug == RingBug::RelaxedFlag)
    ptx::stRelaxedSys(ring.nextFlag + blockIdx.x, step + 1);
  else
    ptx::stReleaseSys(ring.nextFlag + blockIdx.x, step + 1);
}

template <RingBug kBug>
TUTTI_DEVICE void ringReceive(const RingArguments& ring, const float* slot, RingChunk chunk,
                              uint64_t step, bool adds) {
  if (threadIdx.x == 0) {
    if (kBug == RingBug::RelaxedLoad)
      while (ptx::ldRelaxedSys(ring.flag + blockIdx.x) < step + 1) spinHint();
    else
      waitUntil(ring.flag + blockIdx.x, step + 1);
  }
  __syncthreads();
  for (uint64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) {
    const float value = slot[i - chunk.begin];
    ring.data[i] = adds ? ring.data[i] + value : value;
  }
  if (kBug != RingBug::NoBarrierBeforeCredit) __syncthreads();
  if (threadIdx.x == 0) ptx::stReleaseSys(ring.previousCredit + blockIdx.x, step + 1);
}

template <RingBug kBug>
__global__ void ringAllReduce(RingArguments ring) {
  const int ranks = ring.ranks, reduceSteps = ranks - 1;
  for (int step = 0; step < 2 * reduceSteps; ++step) {
    const bool adds = step < reduceSteps;
    const int sent = (adds ? ring.rank - step : ring.rank + 1 - (step - reduceSteps)) + 2 * ranks;
    const uint64_t slot =
        (uint64_t(blockIdx.x) * kSlots + uint64_t(step) % kSlots) * ring.slotCount;
    ringSend<kBug>(ring, ring.nextInbox + slot, ringChunk<kBug>(ring, sent % ranks),
                   uint64_t(step));
    ringReceive<kBug>(ring, ring.inbox + slot, ringChunk<kBug>(ring, (sent - 1) % ranks),
                      uint64_t(step), adds);
  }
}

}  // namespace tutti::emulation::kernels
