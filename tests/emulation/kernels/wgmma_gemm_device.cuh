#pragma once

// C = A B', bf16, for sm_90a: tiles of 128x128, K in steps of 64 through a ring of four stages.
// Clusters of two blocks have tiles below each other and share B: each loads half of it into both.
// Warpgroup 0 produces: one thread waits until a stage is empty in both blocks and issues TMA.
// Warpgroups 1 and 2 consume: wgmma on 64 rows each, then C through shared memory by a TMA store.
// Persistent: cluster i takes tiles i, i + clusters, ...
//
// full[s] has one arrival, of the own producer, and the bytes of A and of both halves of B.
// empty[s] has one of each consumer warpgroup of both blocks.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::kernels {

using namespace cuda;

enum class WgmmaBug {
  None,
  NoWaitForEmpty,        // a stage is overwritten while it is read
  WrongParity,           // a stage is read before it is full
  ReleasedEarly,         // a stage is given back while wgmma reads it
  TooFewBytes,           // expected
  WrongStep,             // along k
  NoProxyFence,          // before the store of C
  NoWaitForResults,      // accumulators are read while wgmma writes them
  StoreNotWaited,        // C's buffer is written again, and left, while TMA reads it
  ReleasedHereOnly,      // the other block's producer does not wait for this one's consumers
  LeftEarly,             // a block exits while the other one still uses it
  NoFence,               // wgmma.fence
  NoBarrierFence,        // barriers are used before other threads have initialised them
  NoBarrierBeforeStore,  // C is stored while other warps still write it
  OneThreadTooMany       // releases a stage twice
};

constexpr int kWgTile = 128, kWgDepth = 64, kWgStages = 4, kWgThreads = 384;

struct WgmmaShared {
  __nv_bfloat16 a[kWgStages][kWgTile * kWgDepth];
  __nv_bfloat16 b[kWgStages][kWgTile * kWgDepth];
  __nv_bfloat16 c[2][64 * kWgTile];
  uint64_t full[kWgStages], empty[kWgStages];
};

struct WgmmaShape {
  int m, n, k;
};

/// Where in the problem a tile of a cluster lies: `pair` rows of two tiles, column tiles first.
struct WgmmaTile {
  int row, column;
};
TUTTI_DEVICE WgmmaTile wgmmaTile(const WgmmaShape& shape, int tile, uint32_t rank) {
  const int columns = (shape.n + kWgTile - 1) / kWgTile;
  return {(tile / columns * 2 + int(rank)) * kWgTile, tile % columns * kWgTile};
}
TUTTI_DEVICE int wgmmaTiles(const WgmmaShape& shape) {
  return (shape.n + kWgTile - 1) / kWgTile * ((shape.m + 2 * kWgTile - 1) / (2 * kWgTile));
}

template <WgmmaBug kBug>
TUTTI_DEVICE void wgmmaProduce(WgmmaShared& shared, const CUtensorMap* a, const CUtensorMap* b,
                               const WgmmaShape& shape) {
  constexpr uint32_t kBytes = 2 * kWgTile * kWgDepth * sizeof(__nv_bfloat16);
  constexpr uint16_t kBoth = 3;
  const uint32_t rank = ptx::clusterRank();
  uint32_t step = 0;
  for (int tile = int(blockIdx.x) / 2; tile < wgmmaTiles(shape); tile += int(gridDim.x) / 2)
    for (int k = 0; k < shape.k; k += kWgDepth, ++step) {
      const uint32_t stage = step % kWgStages, turn = step / kWgStages % 2;
      const WgmmaTile at = wgmmaTile(shape, tile, rank);
      const uint32_t full = ptx::sharedAddress(&shared.full[stage]);
      if (kBug != WgmmaBug::NoWaitForEmpty)
        ptx::mbarrierWaitCluster(ptx::sharedAddress(&shared.empty[stage]), turn ^ 1);
      ptx::mbarrierArriveExpectTx(full, kBug == WgmmaBug::TooFewBytes ? kBytes - 64 : kBytes);
      ptx::tensorLoad(ptx::sharedAddress(shared.a[stage]), a, {k, at.row}, full);
      const int half = int(rank) * kWgTile / 2;
      ptx::tensorLoadMulticast(ptx::sharedAddress(shared.b[stage] + half * kWgDepth), b,
                               {k, at.column + half}, full, kBoth);
    }
}

/// Gives a stage back to the producers of both blocks.
template <WgmmaBug kBug>
TUTTI_DEVICE void wgmmaRelease(WgmmaShared& shared, uint32_t stage) {
  const uint32_t empty = ptx::sharedAddress(&shared.empty[stage]);
  const uint32_t self = threadIdx.x % 128;
  if (self == 0) {
    ptx::mbarrierArrive(empty);
    const uint32_t other =
        kBug == WgmmaBug::ReleasedHereOnly ? ptx::clusterRank() : ptx::clusterRank() ^ 1;
    ptx::mbarrierArriveCluster(ptx::mapa(empty, other));
  }
  if (kBug == WgmmaBug::OneThreadTooMany && self == 32) ptx::mbarrierArrive(empty);
}

template <WgmmaBug kBug>
TUTTI_DEVICE void wgmmaAccumulate(float (&sums)[64], WgmmaShared& shared, int k, uint32_t& step) {
  const uint32_t rows = threadIdx.x / 128 - 1;
  for (int at = 0; at < k; at += kWgDepth, ++step) {
    const uint32_t stage = step % kWgStages, turn = step / kWgStages % 2;
    ptx::mbarrierWait(ptx::sharedAddress(&shared.full[stage]),
                      turn ^ (kBug == WgmmaBug::WrongParity ? 1 : 0));
    const auto descriptor = [](const __nv_bfloat16* from) {
      return ptx::wgmmaDescriptor(ptx::sharedAddress(from), 16, 1024, ptx::Swizzle::Bytes128);
    };
    const uint64_t a = descriptor(shared.a[stage] + rows * 64 * kWgDepth);
    const uint64_t b = descriptor(shared.b[stage]);
    if (kBug != WgmmaBug::NoFence) ptx::wgmmaFence();
    constexpr int kStep = kBug == WgmmaBug::WrongStep ? 1 : 2;  // 16 elements, in units of 16 bytes
#pragma unroll
    for (int i = 0; i < kWgDepth / 16; ++i)
      ptx::wgmmaBf16(sums, a + uint64_t(i * kStep), b + uint64_t(i * kStep), at > 0 || i > 0);
    ptx::wgmmaCommit();
    if (kBug == WgmmaBug::ReleasedEarly) wgmmaRelease<kBug>(shared, stage);
    ptx::wgmmaWait<1>(sums);
    if (kBug != WgmmaBug::ReleasedEarly && at > 0)
      wgmmaRelease<kBug>(shared, (step - 1) % kWgStages);
  }
  if (kBug != WgmmaBug::NoWaitForResults) ptx::wgmmaWait<0>(sums);
  if (kBug == WgmmaBug::LeftEarly && ptx::clusterRank() == 1)  // the other one is faster
    for (int i = 0; i < 1000; ++i) __nanosleep(1000);
  if (kBug != WgmmaBug::ReleasedEarly) wgmmaRelease<kBug>(shared, (step - 1) % kWgStages);
}

template <WgmmaBug kBug>
TUTTI_DEVICE void wgmmaStore(const float (&sums)[64], WgmmaShared& shared, const CUtensorMap* c,
                             WgmmaTile at) {
  const uint32_t group = threadIdx.x / 128 - 1, self = threadIdx.x % 128, lane = self % 32;
  __nv_bfloat16* const buffer = shared.c[group];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = ptx::packBf16(sums[8 * j + 2 * i], sums[8 * j + 2 * i + 1]);
    ptx::stmatrix(ptx::sharedAddress(buffer + (self / 32 * 16 + lane % 16) * kWgTile + 16 * j +
                                     lane / 16 * 8),
                  words);
  }
  if (kBug != WgmmaBug::NoProxyFence) ptx::fenceProxyAsyncShared();
  if (kBug != WgmmaBug::NoBarrierBeforeStore) ptx::barSync(1 + group, 128);
  if (self == 0) {
    ptx::tensorStore(c, {at.column, at.row + int(group) * 64}, ptx::sharedAddress(buffer));
    ptx::bulkCommit();
    if (kBug != WgmmaBug::StoreNotWaited) ptx::bulkWaitRead<0>();
  }
  ptx::barSync(1 + group, 128);
}

template <WgmmaBug kBug>
__global__ void __launch_bounds__(kWgThreads, 1)
    wgmmaGemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
              const __grid_constant__ CUtensorMap c, WgmmaShape shape) {
  WgmmaShared& shared = *dynamicShared<WgmmaShared>();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kWgStages; ++i) {
      ptx::mbarrierInit(ptx::sharedAddress(&shared.full[i]), 1);
      ptx::mbarrierInit(ptx::sharedAddress(&shared.empty[i]), 4);
    }
    ptx::fenceMbarrierInit();
  }
  // Whoever waits for registers comes behind thread 0 as well, which would hide that bug.
  constexpr bool kMovesRegisters = kBug != WgmmaBug::NoBarrierFence;
  if (kBug != WgmmaBug::NoBarrierFence) ptx::clusterSync();
  if (threadIdx.x < 128) {
    if constexpr (kMovesRegisters) ptx::setMaxRegistersDown<40>();
    if (threadIdx.x == 0) wgmmaProduce<kBug>(shared, &a, &b, shape);
  } else {
    if constexpr (kMovesRegisters) ptx::setMaxRegistersUp<232>();
    uint32_t step = 0;
    for (int tile = int(blockIdx.x) / 2; tile < wgmmaTiles(shape); tile += int(gridDim.x) / 2) {
      float sums[64];
      wgmmaAccumulate<kBug>(sums, shared, shape.k, step);
      wgmmaStore<kBug>(sums, shared, &c, wgmmaTile(shape, tile, ptx::clusterRank()));
    }
  }
  if (kBug != WgmmaBug::LeftEarly) ptx::clusterSync();
}

}  // namespace tutti::emulation::kernels
