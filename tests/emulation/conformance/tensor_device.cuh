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

/// A cluster of 4: each block loads a quarter of the rows into all, then dumps all of them.
template <int kRows>
__global__ void tensorMulticast(uint32_t* out, const __grid_constant__ CUtensorMap source,
                                uint32_t bytes) {
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
  if (threadIdx.x == 0)
    ptx::tensorLoadMulticast(address + rank * bytes, &source, {0, int(rank) * kRows}, at, 0xf);
  ptx::mbarrierWaitCluster(at, 0);
  for (uint32_t i = threadIdx.x; i < bytes; i += blockDim.x)
    out[rank * bytes + i] = reinterpret_cast<const uint32_t*>(box)[i];
  ptx::clusterSync();
}

}  // namespace tutti::emulation::conformance
