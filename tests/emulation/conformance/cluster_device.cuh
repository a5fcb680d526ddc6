#pragma once

// Kernels for mbarriers, clusters, bulk copies and registers of warpgroups (sm_90).

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::conformance {

using namespace cuda;

/// What thread 0 is told about the phases of an mbarrier of 64 arrivals, and words that a bulk copy
/// counts on it. One block of 64 threads; out[8 + i] = in[i] for 64 words.
__global__ inline void phases(uint32_t* out, const uint32_t* in) {
  TUTTI_SHARED(uint4, held, [16]);
  TUTTI_SHARED(uint64_t, barrier, [1]);
  const uint32_t at = ptx::sharedAddress(barrier);
  const auto note = [&](int i, uint32_t parity) {
    __syncthreads();
    if (threadIdx.x == 0) out[i] = ptx::mbarrierTestWait(at, parity);
    __syncthreads();
  };
  if (threadIdx.x == 0) {
    ptx::mbarrierInit(at, 64);
    ptx::fenceMbarrierInit();
  }
  note(0, 0);
  note(1, 1);
  ptx::mbarrierArrive(at);
  ptx::mbarrierWait(at, 0);
  note(2, 0);
  note(3, 1);
  if (threadIdx.x == 0) ptx::mbarrierExpectTx(at, 128);
  if (threadIdx.x < 63) ptx::mbarrierArrive(at);
  note(4, 1);
  if (threadIdx.x == 63) ptx::mbarrierArriveExpectTx(at, 128);
  note(5, 1);
  if (threadIdx.x == 0)
    for (uint32_t half = 0; half < 2; ++half)
      ptx::bulkLoad(ptx::sharedAddress(held) + half * 128, in + half * 32, 128, at);
  while (!ptx::mbarrierTryWait(at, 1)) {
  }
  out[8 + threadIdx.x] = reinterpret_cast<const uint32_t*>(held)[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrierInvalidate(at);
    ptx::mbarrierInit(at, 1);
    ptx::mbarrierArrive(at);
  }
  note(6, 0);
  note(7, 1);
}

/// A cluster of 4: each block writes to the next one's shared memory and arrives there, then reads
/// what the block two further has. out[16 block + ...]: 7 words written here, 7 read there, rank,
/// size.
__global__ inline void neighbours(uint32_t* out, const uint32_t* in) {
  TUTTI_SHARED(uint4, held, [2]);
  TUTTI_SHARED(uint64_t, barrier, [1]);
  const uint32_t rank = ptx::clusterRank(), size = ptx::clusterSize();
  const uint32_t* const mine = in + 8 * rank;
  const uint32_t at = ptx::sharedAddress(barrier), words = ptx::sharedAddress(held);
  if (threadIdx.x == 0) {
    ptx::mbarrierInit(at, 3);
    ptx::fenceMbarrierInit();
  }
  ptx::clusterSync();
  if (threadIdx.x == 0) {
    const uint32_t next = (rank + 1) % size;
    ptx::stCluster128(ptx::mapa(words, next), make_uint4(mine[0], mine[1], mine[2], mine[3]));
    ptx::stCluster64(ptx::mapa(words + 16, next), mine[4] | uint64_t(mine[5]) << 32);
    ptx::stCluster32(ptx::mapa(words + 24, next), mine[6]);
    ptx::mbarrierArriveCluster(ptx::mapa(at, next));
    ptx::mbarrierArriveExpectTxCluster(ptx::mapa(at, next), 0);
    ptx::mbarrierArriveClusterRelaxed(ptx::mapa(at, next));
  }
  while (!ptx::mbarrierTryWaitClusterRelaxed(at, 0)) {
  }
  ptx::mbarrierWaitClusterRelaxed(at, 0);
  ptx::mbarrierWaitCluster(at, 0);
  ptx::clusterArrive();
  uint32_t* const to = out + 16 * rank;
  if (threadIdx.x < 7) to[threadIdx.x] = reinterpret_cast<const uint32_t*>(held)[threadIdx.x];
  ptx::clusterWait();
  if (threadIdx.x == 0) {
    const uint32_t other = (rank + 2) % size;
    const uint4 first = ptx::ldCluster128(ptx::mapa(words, other));
    const uint64_t second = ptx::ldCluster64(ptx::mapa(words + 16, other));
    to[7] = first.x, to[8] = first.y, to[9] = first.z, to[10] = first.w;
    to[11] = uint32_t(second), to[12] = uint32_t(second >> 32);
    to[13] = ptx::ldCluster32(ptx::mapa(words + 24, other));
    to[14] = rank, to[15] = size;
  }
  ptx::clusterArriveRelaxed();
  ptx::clusterWait();
}

/// A cluster of 2: rank 0 multicasts 64 words to both, rank 1 copies 64 of its own to rank 0; both
/// dump 128 words.
__global__ inline void sharedCopies(uint32_t* out, const uint32_t* in) {
  TUTTI_SHARED(uint4, held, [32]);
  TUTTI_SHARED(uint4, own, [16]);
  TUTTI_SHARED(uint64_t, barrier, [1]);
  const uint32_t rank = ptx::clusterRank(), at = ptx::sharedAddress(barrier);
  const uint32_t words = ptx::sharedAddress(held);
  auto* const asWords = reinterpret_cast<uint32_t*>(held);
  asWords[threadIdx.x] = asWords[64 + threadIdx.x] = 0;
  reinterpret_cast<uint32_t*>(own)[threadIdx.x] = in[64 + threadIdx.x];
  ptx::fenceProxyAsync();
  if (threadIdx.x == 0) {
    ptx::mbarrierInit(at, 1);
    ptx::fenceMbarrierInit();
    ptx::mbarrierArriveExpectTx(at, rank == 0 ? 512 : 256);
  }
  ptx::clusterSync();
  if (threadIdx.x == 0 && rank == 0) ptx::bulkLoadMulticast(words, in, 256, at, 3);
  if (threadIdx.x == 0 && rank == 1)
    ptx::bulkCopyCluster(ptx::mapa(words + 256, 0), ptx::sharedAddress(own), 256, ptx::mapa(at, 0));
  while (!ptx::mbarrierTryWaitCluster(at, 0)) {
  }
  out[128 * rank + threadIdx.x] = asWords[threadIdx.x];
  out[128 * rank + 64 + threadIdx.x] = asWords[64 + threadIdx.x];
  ptx::clusterSync();
}

enum class Bulk { Store, AddF32, AddF16, AddBf16, AddS32, AddU64 };

/// Both of two blocks store, or add, 512 bytes: `out` held `before`.
template <Bulk kBulk>
__global__ void bulkStores(uint32_t* out, const uint32_t* in) {
  TUTTI_SHARED(uint4, held, [32]);
  auto* const words = reinterpret_cast<uint32_t*>(held);
  words[threadIdx.x] = in[threadIdx.x];
  ptx::fenceProxyAsyncShared();
  __syncthreads();
  if (threadIdx.x != 0) return;
  const uint32_t from = ptx::sharedAddress(held);
  for (uint32_t half = 0; half < 2; ++half) {
    uint32_t* const to = out + half * 64;
    if constexpr (kBulk == Bulk::Store)
      ptx::bulkStore(to, from + half * 256, 256);
    else if constexpr (kBulk == Bulk::AddF32)
      ptx::bulkReduceAddF32(to, from + half * 256, 256);
    else if constexpr (kBulk == Bulk::AddF16)
      ptx::bulkReduceAddF16(to, from + half * 256, 256);
    else if constexpr (kBulk == Bulk::AddBf16)
      ptx::bulkReduceAddBf16(to, from + half * 256, 256);
    else if constexpr (kBulk == Bulk::AddS32)
      ptx::bulkReduceAddS32(to, from + half * 256, 256);
    else
      ptx::bulkReduceAddU64(to, from + half * 256, 256);
    ptx::bulkCommit();
    if (half == 0) ptx::bulkWaitRead<0>();
  }
  ptx::bulkWait<0>();
}

__global__ inline void addPairs(float* out, const float* in) {
  if (threadIdx.x < 2) out[threadIdx.x] = 0;
  __syncthreads();
  ptx::redAddV2F32(out, in[threadIdx.x], 1.0f);
  ptx::redAddF32(out + 1, 2.0f);
}

/// out[warp] = how many lanes were elected.
__global__ inline void elections(uint32_t* out) {
  const bool elected = ptx::electOne();
  const uint32_t lanes = __ballot_sync(~0u, elected);
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = uint32_t(__popc(lanes));
}

/// After the launch before it on the stream.
__global__ inline void dependent(uint32_t* out) {
  ptx::gridDependencyWait();
  out[threadIdx.x] += threadIdx.x;
  ptx::gridLaunchDependents();
}

constexpr uint32_t kHeldWords = 192;

/// Three warpgroups of one block, as kernels that multiply have them: the first gives registers
/// back and passes words on, the others take them, which hold all of the words at a time. A thread
/// of a block of 384 has 168 at first. out: a hash of the words of each thread.
__global__ inline void __launch_bounds__(384, 1) shareRegisters(uint32_t* out, const uint32_t* in) {
  TUTTI_SHARED(uint32_t, held, [kHeldWords]);
  if (threadIdx.x < 128) {
    ptx::setMaxRegistersDown<40>();
    for (uint32_t i = threadIdx.x; i < kHeldWords; i += 128) held[i] = in[i];
    ptx::barArrive(1, 384);
    return;
  }
  ptx::setMaxRegistersUp<232>();
  ptx::barSync(1, 384);
  const uint32_t self = threadIdx.x - 128;
  uint32_t words[kHeldWords], hash = 0;
#pragma unroll
  for (uint32_t i = 0; i < kHeldWords; ++i) words[i] = held[(i + self) % kHeldWords];
#pragma unroll
  for (uint32_t i = 0; i < kHeldWords; ++i) words[i] = 5 * words[i] + words[kHeldWords - 1 - i];
#pragma unroll
  for (uint32_t i = 0; i < kHeldWords; ++i) hash = 31 * hash + words[i];
  out[self] = hash;
}

}  // namespace tutti::emulation::conformance
