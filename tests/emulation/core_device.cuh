#pragma once

// Small kernels about threads, barriers and memory, right and wrong ones.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::core {

using namespace cuda;

/// out[thread of the grid] = its block times 1000 plus its index.
__global__ inline void indices(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = int(block * 1000 + thread);
}

/// Each block reverses its part of the array through shared memory.
__global__ inline void reverse(int* data) {
  TUTTI_SHARED(int, held, [1024]);
  int* const mine = data + blockIdx.x * blockDim.x;
  held[threadIdx.x] = mine[threadIdx.x];
  __syncthreads();
  mine[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

/// out[block] = the sum of 1 + block index over its cluster, through shared memory of each.
__global__ inline void clusterSum(uint32_t* out) {
  TUTTI_SHARED(uint32_t, held, [1]);
  if (threadIdx.x == 0) held[0] = blockIdx.x + 1;
  ptx::clusterSync();
  if (threadIdx.x == 0) {
    uint32_t sum = 0;
    for (uint32_t rank = 0; rank < ptx::clusterSize(); ++rank)
      sum += ptx::ldCluster32(ptx::mapa(ptx::sharedAddress(held), rank));
    out[blockIdx.x] = sum;
  }
  ptx::clusterSync();
}

/// out[block] = the sum of all blocks' indices, `rounds` times.
__global__ inline void gridSum(uint32_t* held, uint32_t* out, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) held[blockIdx.x] = blockIdx.x + uint32_t(round);
    gridSync();
    uint32_t sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += held[i];
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
    gridSync();
  }
}

/// The first ten blocks, more than there are workers, wait for a flag that the last block raises.
__global__ inline void waitForLast(uint32_t* flag, uint32_t* data) {
  if (blockIdx.x < 10) {
    if (threadIdx.x == 0)
      while (ptx::ldAcquireGpu(flag) == 0) spinHint();
    __syncthreads();
    if (blockIdx.x == 0) data[threadIdx.x] += 1;
  } else if (blockIdx.x == gridDim.x - 1) {
    data[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) ptx::stReleaseGpu(flag, 1u);
  }
}

enum class Wrong {
  DivergentBarrier,
  MissingArrival,
  NeverRaised,
  WarpMask,
  MissingLane,
  UninitialisedBarrier,
  TooManyArrivals,
  Misaligned,
  OutsideShared,
  CopyNotWaited,
  StoreNotWaited,
  GridSync,
  ExitedPeer,
  NotATensorMap,
  MisalignedLoad,
  MisalignedMulticast,
  MisalignedStore,
  MisalignedReduction,
  StoreBefore,
  StoreBeyond,
  ReductionBefore,
  ReductionBeyond
};

__global__ inline void wrong(Wrong what, uint32_t* flag, const __grid_constant__ CUtensorMap map) {
  TUTTI_SHARED(uint4, held, [64]);
  const uint32_t address = ptx::sharedAddress(held);
  const uint32_t aligned = (address + 127) / 128 * 128;
  const unsigned thread = threadIdx.x;
  switch (what) {
    case Wrong::DivergentBarrier:
      if (thread < 32)
        __syncthreads();
      else
        __syncthreads();
      break;
    case Wrong::MissingArrival: ptx::barSync(1, 128); break;
    case Wrong::NeverRaised:
      while (ptx::ldAcquireSys(flag) == 0) spinHint();
      break;
    case Wrong::WarpMask: __shfl_sync(1u, thread, 0); break;
    case Wrong::MissingLane:
      if (thread % 32 != 5) __shfl_sync(~0u, thread, 0);
      __syncthreads();
      break;
    case Wrong::UninitialisedBarrier: ptx::mbarrierArrive(address); break;
    case Wrong::TooManyArrivals:
      if (thread == 0) ptx::mbarrierInit(address, 65);
      __syncthreads();
      ptx::mbarrierArrive(address);
      if (thread < 2) ptx::mbarrierArriveExpectTx(address, 16);
      break;
    case Wrong::Misaligned: ptx::cpAsync<16>(address + 4, flag, 0); break;
    case Wrong::OutsideShared: ptx::cpAsync<16>(address + 1024 + 16 * 64, flag, 0); break;
    case Wrong::CopyNotWaited: ptx::cpAsync<16>(address + 16 * (thread % 32), flag, 0); break;
    case Wrong::StoreNotWaited:
      held[0] = {};
      ptx::fenceProxyAsyncShared();
      if (thread == 0) ptx::bulkStore(flag, address, 16);
      ptx::bulkCommit();
      break;
    case Wrong::GridSync: gridSync(); break;
    case Wrong::ExitedPeer:
      if (ptx::clusterRank() == 1) {
        for (int i = 0; i < 100; ++i) spinHint();
        ptx::ldCluster32(ptx::mapa(address, 0));
      }
      break;
    case Wrong::NotATensorMap: ptx::prefetchTensorMap(&map); break;
    case Wrong::MisalignedLoad: ptx::tensorLoad(address, &map, {3}, address); break;
    case Wrong::MisalignedMulticast:
      ptx::tensorLoadMulticast(address, &map, {2}, address, 1);
      break;
    case Wrong::MisalignedStore: ptx::tensorStore(&map, {-1}, address); break;
    case Wrong::MisalignedReduction: ptx::tensorReduceAdd(&map, {5}, address); break;
    case Wrong::StoreBefore: ptx::tensorStore(&map, {-4}, aligned); break;
    case Wrong::StoreBeyond: ptx::tensorStore(&map, {4}, aligned); break;
    case Wrong::ReductionBefore: ptx::tensorReduceAdd(&map, {-4}, aligned); break;
    case Wrong::ReductionBeyond: ptx::tensorReduceAdd(&map, {4}, aligned); break;
  }
}

enum class WrongRegisters {
  PartOfAWarp,
  PartOfAWarpgroup,
  AfterOthersLeft,
  OthersTakeMore,
  Again,
  FewerByUp,
  MoreByDown,
  MoreThanThereAre
};

/// A block of 384 threads, which have 168 registers each at first.
__global__ inline void __launch_bounds__(384, 1) wrongRegisters(WrongRegisters what) {
  const unsigned thread = threadIdx.x, group = thread / 128;
  switch (what) {
    case WrongRegisters::PartOfAWarp:
      if (thread != 5) ptx::setMaxRegistersDown<40>();
      __syncthreads();
      break;
    case WrongRegisters::PartOfAWarpgroup:
      if (thread < 96) ptx::setMaxRegistersDown<40>();
      __syncthreads();
      break;
    case WrongRegisters::AfterOthersLeft:
      if (thread < 32) return;
      ptx::setMaxRegistersDown<40>();
      break;
    case WrongRegisters::OthersTakeMore:
      if (thread < 32)
        ptx::setMaxRegistersDown<40>();
      else
        ptx::setMaxRegistersDown<24>();
      break;
    case WrongRegisters::Again:
      ptx::setMaxRegistersDown<40>();
      ptx::setMaxRegistersDown<24>();
      break;
    case WrongRegisters::FewerByUp:
      ptx::setMaxRegistersDown<40>();
      __syncthreads();
      ptx::setMaxRegistersUp<24>();
      break;
    case WrongRegisters::MoreByDown:
      ptx::setMaxRegistersDown<40>();
      __syncthreads();
      ptx::setMaxRegistersDown<48>();
      break;
    case WrongRegisters::MoreThanThereAre:
      if (group == 0)
        ptx::setMaxRegistersDown<40>();
      else
        ptx::setMaxRegistersUp<240>();
      break;
  }
}

enum class MapFence { None, Acquire, Release };  // which one is missing

/// Loads the box at 0, 16 bytes, of a tensor map in global memory, which becomes `next`, and again.
__global__ inline void replaceMap(CUtensorMap* map, const CUtensorMap* next, MapFence missing) {
  TUTTI_SHARED(uint4, held, [16]);
  TUTTI_SHARED(uint64_t, barrier, [1]);
  const uint32_t at = ptx::sharedAddress(barrier);
  const uint32_t aligned = (ptx::sharedAddress(held) + 127) / 128 * 128;
  ptx::mbarrierInit(at, 1);
  ptx::fenceMbarrierInit();
  ptx::fenceTensorMapAcquire(map);
  for (uint32_t round = 0; round < 2; ++round) {
    ptx::mbarrierArriveExpectTx(at, 16);
    ptx::tensorLoad(aligned, map, {0}, at);
    ptx::mbarrierWait(at, round);
    if (round == 1) return;
    *map = *next;
    if (missing != MapFence::Release) ptx::fenceTensorMapRelease();
    if (missing != MapFence::Acquire) ptx::fenceTensorMapAcquire(map);
  }
}

}  // namespace tutti::emulation::core
