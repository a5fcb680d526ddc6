#pragma once

// Kernels for TMA: a box is loaded, dumped as it lies in shared memory, stored elsewhere and added.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::conformance {

using namespace cuda;

template <int kRank>
struct Coordinates {
  int at[kRank];
};

/// out: the box's bytes in shared memory, as words. One block.
template <int kRank>
__global__ void tensorCopies(uint32_t* out, const __grid_constant__ CUtensorMap source,
                             const __grid_constant__ CUtensorMap target,
                             const __grid_constant__ CUtensorMap sum, Coordinates<kRank> from,
                             Coordinates<kRank> to, uint32_t bytes) {
  char* const box = dynamicShared<char>();
  TUTTI_SHARED(uint64_t, barrier, [1]);
  const uint32_t at = ptx::sharedAddress(barrier), address = ptx::sharedAddress(box);
  if (threadIdx.x == 0) {
    ptx::prefetchTensorMap(&source);
    ptx::mbarrierInit(at, 1);
    ptx::fenceMbarrierInit();
    ptx::mbarrierArriveExpectTx(at, bytes);
    ptx::tensorLoad(address, &source, from.at, at);
  }
  __syncthreads();
  ptx::mbarrierWait(at, 0);
  for (uint32_t i = threadIdx.x; i < bytes / 4; i += blockDim.x)
    out[i] = reinterpret_cast<const uint32_t*>(box)[i];
  if (threadIdx.x != 0) return;
  ptx::tensorStore(&target, to.at, address);
  ptx::bulkCommit();
  ptx::tensorReduceAdd(&sum, to.at, address);
  ptx::bulkCommit();
  ptx::bulkWaitRead<1>();
  ptx::bulkWait<0>();
}

/// A cluster of 4: each block loads a quarter of the tensor, `extent` along its last dimension,
/// into all, then dumps all of it.
template <int kRank>
__global__ void tensorMulticast(uint32_t* out, const __grid_constant__ CUtensorMap source,
                                int extent, uint32_t bytes) {
  char* const box = dynamicShared<char>();
  TUTTI_SHARED(uint64_t, barrier, [1]);
  const uint32_t at = ptx::sharedAddress(barrier), address = ptx::sharedAddress(box);
  const uint32_t rank = ptx::clusterRank();
  if (threadIdx.x == 0) {
    ptx::mbarrierInit(at, 1);
    ptx::fenceMbarrierInit();
    ptx::mbarrierArriveExpectTx(at, 4 * bytes);
  }
  ptx::clusterSync();
  Coordinates<kRank> from{};
  from.at[kRank - 1] = int(rank) * extent;
  if (threadIdx.x == 0) ptx::tensorLoadMulticast(address + rank * bytes, &source, from.at, at, 0xf);
  ptx::mbarrierWaitCluster(at, 0);
  for (uint32_t i = threadIdx.x; i < bytes; i += blockDim.x)
    out[rank * bytes + i] = reinterpret_cast<const uint32_t*>(box)[i];
  ptx::clusterSync();
}

/// Two blocks. Block 1 loads the box at 0 of the map that the host has written to global memory;
/// then block 0 replaces that map by `next`, and block 1 loads again. out: both boxes.
__global__ inline void replacedMap(uint32_t* out, CUtensorMap* map, const CUtensorMap* next,
                                   uint32_t* turn, uint32_t bytes) {
  char* const box = dynamicShared<char>();
  TUTTI_SHARED(uint64_t, barrier, [1]);
  if (blockIdx.x == 0) {
    if (threadIdx.x != 0) return;
    while (ptx::ldAcquireGpu(turn) != 1) spinHint();
    *map = *next;
    ptx::fenceTensorMapRelease();
    ptx::stReleaseGpu(turn, 2u);
    return;
  }
  const uint32_t at = ptx::sharedAddress(barrier), address = ptx::sharedAddress(box);
  if (threadIdx.x == 0) {
    ptx::mbarrierInit(at, 1);
    ptx::fenceMbarrierInit();
  }
  for (uint32_t round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) {
      while (ptx::ldAcquireGpu(turn) != 2 * round) spinHint();
      ptx::fenceTensorMapAcquire(map);
      ptx::fenceProxyAsyncShared();  // the box was read
      ptx::mbarrierArriveExpectTx(at, bytes);
      ptx::tensorLoad(address, map, {0, 0}, at);
    }
    __syncthreads();
    ptx::mbarrierWait(at, round);
    for (uint32_t i = threadIdx.x; i < bytes / 4; i += blockDim.x)
      out[round * bytes / 4 + i] = reinterpret_cast<const uint32_t*>(box)[i];
    __syncthreads();
    if (threadIdx.x == 0 && round == 0) ptx::stReleaseGpu(turn, 1u);
  }
}

}  // namespace tutti::emulation::conformance
