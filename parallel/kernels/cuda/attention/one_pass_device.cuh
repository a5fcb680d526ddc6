#pragma once

// Backward of attention for Hopper in one pass: scores are computed once, by blocks that own 128
// keys and values, as in wgmma_gradient_device.cuh, whose first two thirds of a step these are. The
// third product of a step, of dS and keys, is part of the gradients of its 64 queries, which blocks
// add up in memory:
//
//   scores     dS, rounded to 16 bits, by both warpgroups to shared memory
//   queries    dS^T k of all 128 keys, by one of the two, which take steps in turn
//   turns      a thread adds these to memory (cp.reduce.async.bulk) when all key tiles behind the
//              own one have done so: one order of every sum, whatever block comes first. The first
//              of them overwrites, so that nothing need be zero
//
//   fullScores[s]    1 arrival of each of the 8 warps that consume
//   emptyScores[s]   1 arrival of each of the 4 warps that have read
//   fullQueries[s]   1 arrival of each of the 4 warps that have written
//   emptyQueries[s]  1 arrival of the thread that adds
//
// Nobody waits for ever: blocks take key tiles by counting in memory, those behind first, so that
// what a block waits for was taken before, by one that runs. Where queries see keys before them
// alone, they meet the last one of these first, and what a block waits for was added a step before.
//
//   fullTile[s]   1 arrival of the thread that takes tiles
//   emptyTile[s]  1 arrival of each of the 10 warps beside it that work on them
//
// A second kernel scales and rounds the sums, which lie as threads had them: four of each of 128
// threads, then the next four.
//
// Bound: tensor cores, 5 products of 2 * 128 * 64 * width operations a step, for 7 of two passes;
// and for each step 64 * width * 4 bytes are added in the second-level cache.

#include "parallel/kernels/cuda/attention/wgmma_gradient_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kTileReaders = kReaders + 2;

template <int kWidth>
struct OnePassShared : WgmmaGradientShared<kWidth> {
  HeadPanels<kTurnRows, kWideRows> scores[2];
  float4 queries[2][kWidth / 8][kGroupRows * 2];  ///< of each thread of a warpgroup
  uint64_t fullScores[2], emptyScores[2], fullQueries[2], emptyQueries[2];
  uint64_t fullTile[2], emptyTile[2];
  int32_t tile[2];
};
static_assert(kTurnRows == kWideOthers && kGradientStages == 2);
static_assert(sizeof(OnePassShared<128>) <= 227 << 10, "what a block may have");

/// Key tiles of a launch, in the order in which blocks take them: those behind first.
class KeyTiles {
 public:
  TUTTI_DEVICE explicit KeyTiles(const AttentionSizes& sizes)
      : sizes_(sizes), count_(headTasks(sizes, sizes.kvHeads, sizes.keys, kWideRows)) {}
  TUTTI_DEVICE int32_t count() const { return count_; }
  TUTTI_DEVICE HeadTask at(int32_t index) const {
    return headTaskOf(index, sizes_, sizes_.kvHeads, sizes_.keys, kWideRows, true,
                      otherRowsOf<true>(sizes_));
  }

 private:
  const AttentionSizes& sizes_;
  const int32_t count_;
};

/// The first tile of kTurnRows queries that a key tile meets; behind the last one where nobody sees
/// it. It does not fall from one key tile to the next, nor does where the last one ends.
TUTTI_DEVICE int32_t firstTurn(const AttentionSizes& sizes, int32_t batch, int32_t firstKey) {
  const int32_t from = queriesSeeing(sizes, batch, firstKey).from;
  return from == sizes.queries ? (from + kTurnRows - 1) / kTurnRows : from / kTurnRows;
}

/// Steps of a block: GradientSteps of whole tiles of queries.
class TurnSteps {
 public:
  TUTTI_DEVICE TurnSteps(const AttentionSizes& sizes, const HeadTask& task) {
    const int32_t served = sizes.heads / sizes.kvHeads;
    const int32_t last = min(task.first + kWideRows, sizes.keys) - 1;
    from_ = firstTurn(sizes, task.batch, task.first);
    ofHead_ = (queriesSeeing(sizes, task.batch, last).to + kTurnRows - 1) / kTurnRows - from_;
    head_ = task.head * served;
    count_ = max(ofHead_, 0) * served;
  }
  TUTTI_DEVICE int32_t count() const { return count_; }
  TUTTI_DEVICE int32_t headAt(int32_t step) const { return head_ + step / ofHead_; }
  TUTTI_DEVICE int32_t tileAt(int32_t step) const { return from_ + step % ofHead_; }
  TUTTI_DEVICE int32_t firstAt(int32_t step) const { return tileAt(step) * kTurnRows; }
  TUTTI_DEVICE bool beginsHead(int32_t step) const { return step % ofHead_ == 0; }

 private:
  int32_t from_, ofHead_, head_, count_;
};

template <int kWidth>
TUTTI_DEVICE void startOnePass(OnePassShared<kWidth>& shared) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      ptx::mbarrierInit(ptx::sharedAddress(&shared.fullScores[i]), kReaders);
      ptx::mbarrierInit(ptx::sharedAddress(&shared.emptyScores[i]), kReaders / 2);
      ptx::mbarrierInit(ptx::sharedAddress(&shared.fullQueries[i]), kReaders / 2);
      ptx::mbarrierInit(ptx::sharedAddress(&shared.emptyQueries[i]), 1);
      ptx::mbarrierInit(ptx::sharedAddress(&shared.fullTile[i]), 1);
      ptx::mbarrierInit(ptx::sharedAddress(&shared.emptyTile[i]), kTileReaders);
    }
  }
  startBarriers<true>(shared);
}

/// Takes tiles for the block until there are none; of the thread that loads their rows.
template <int kWidth, class Work>
TUTTI_DEVICE void takeTiles(OnePassShared<kWidth>& shared, const OnePassAttentionBackward& a,
                            const KeyTiles& tiles, const Work& work) {
  TilesBefore before;
#pragma unroll 1
  for (int32_t turn = 0;; ++turn) {
    const RingStage<2> at(turn);
    ptx::mbarrierWait(ptx::sharedAddress(&shared.emptyTile[at.index]), at.parity ^ 1);
    const auto index = int32_t(ptx::atomAddRelaxedGpu(a.taken, 1u));
    shared.tile[at.index] = index;
    ptx::mbarrierArrive(ptx::sharedAddress(&shared.fullTile[at.index]));
    if (index >= tiles.count()) return;
    const HeadTask task = tiles.at(index);
    const TurnSteps steps(a.sizes, task);
    work(task, steps, before);
    before.add(steps.count());
  }
}
/// The same tiles, for a warp.
template <int kWidth, class Work>
TUTTI_DEVICE void forTakenTiles(OnePassShared<kWidth>& shared, const OnePassAttentionBackward& a,
                                const KeyTiles& tiles, const Work& work) {
  TilesBefore before;
#pragma unroll 1
  for (int32_t turn = 0;; ++turn) {
    const RingStage<2> at(turn);
    ptx::mbarrierWait(ptx::sharedAddress(&shared.fullTile[at.index]), at.parity);
    const int32_t index = shared.tile[at.index];
    __syncwarp();
    releaseStage(shared.emptyTile[at.index]);
    if (index >= tiles.count()) return;
    const HeadTask task = tiles.at(index);
    const TurnSteps steps(a.sizes, task);
    work(task, steps, before);
    before.add(steps.count());
  }
}

/// Adds what warpgroups have of queries to memory; of one thread.
template <int kWidth>
class QueryTurns {
 public:
  TUTTI_DEVICE QueryTurns(OnePassShared<kWidth>& shared, const OnePassAttentionBackward& a)
      : shared_(shared),
        a_(a),
        tiles_((a.sizes.queries + kTurnRows - 1) / kTurnRows),
        keyTiles_((a.sizes.keys + kWideRows - 1) / kWideRows) {}

  TUTTI_DEVICE void add(const HeadTask& task, const TurnSteps& steps, const TilesBefore& before) {
    const int32_t own = task.first / kWideRows;
    int32_t last = own;  // of the key tiles that meet the step's queries
    for (int32_t step = 0; step < steps.count(); ++step) {
      const RingStage<2> at(before.steps + step);
      if (steps.beginsHead(step)) last = own;
      const int32_t tile = steps.tileAt(step);
      while (last + 1 < keyTiles_ &&
             firstTurn(a_.sizes, task.batch, (last + 1) * kWideRows) <= tile)
        ++last;
      const int64_t place =
          (int64_t(task.batch) * a_.sizes.heads + steps.headAt(step)) * tiles_ + tile;
      const uint32_t full = ptx::sharedAddress(&shared_.fullQueries[at.index]);
      if (!ptx::mbarrierTestWait(full, at.parity)) finish();  // others may wait for what was added
      ptx::mbarrierWait(full, at.parity);
      awaitTurn(a_.turns + place, uint32_t(last - own));
      constexpr auto kBytes = uint32_t(sizeof(shared_.queries[0]));
      float* const to = a_.sums + place * (kBytes / 4);
      const uint32_t from = ptx::sharedAddress(&shared_.queries[at.index]);
      ptx::fenceProxyAsync();
      if (last == own)
        ptx::bulkStore(to, from, kBytes);
      else
        ptx::bulkReduceAddF32(to, from, kBytes);
      ptx::bulkCommit();
      ptx::bulkWait<1>();
      tell();
      pending_ = a_.turns + place, turn_ = uint32_t(last - own) + 1, index_ = at.index;
    }
  }
  TUTTI_DEVICE void finish() {
    ptx::bulkWait<0>();
    tell();
  }

 private:
  TUTTI_DEVICE void awaitTurn(const uint32_t* turn, uint32_t wanted) {
    if (wanted == 0 || ptx::ldAcquireGpu(turn) == wanted) return;
    finish();  // others may wait for it
    while (ptx::ldAcquireGpu(turn) != wanted) __nanosleep(20);
  }
  /// What was added last is there.
  TUTTI_DEVICE void tell() {
    if (pending_ == nullptr) return;
    ptx::fenceProxyAsync();
    ptx::stReleaseGpu(pending_, turn_);
    ptx::mbarrierArrive(ptx::sharedAddress(&shared_.emptyQueries[index_]));
    pending_ = nullptr;
  }

  OnePassShared<kWidth>& shared_;
  const OnePassAttentionBackward& a_;
  const int32_t tiles_, keyTiles_;
  uint32_t* pending_ = nullptr;
  uint32_t turn_ = 0;
  int index_ = 0;
};

/// A warpgroup's 64 keys, and what it has of queries.
template <class Numbers, int kWidth>
class OnePassRows : public WgmmaGradientRows<Numbers, kWidth, true> {
  using Rows = WgmmaGradientRows<Numbers, kWidth, true>;

 public:
  TUTTI_DEVICE OnePassRows(OnePassShared<kWidth>& shared, const OnePassAttentionBackward& a,
                           const HeadTask& task, int consumer)
      : Rows(shared, a, task, consumer), onePass_(shared), consumer_(consumer) {
    // Keys behind the last one are zeros, but a gradient of scores that is not finite times 0 is
    // NaN.
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (this->row_ + laneOf() / 4 + 8 * h >= a.sizes.keys) this->own_.met[h] = {0, 0};
  }

  TUTTI_DEVICE void compute(const TurnSteps& steps, const TilesBefore& before) {
    const uint32_t parity = before.parity();
    if (steps.count() > 0) ptx::mbarrierWait(ptx::sharedAddress(&onePass_.fullOwn), parity);
    for (int32_t step = 0; step < steps.count(); ++step) {
      const RingStage<2> at(before.steps + step);
      ptx::mbarrierWait(ptx::sharedAddress(&onePass_.full[at.index]), at.parity);
      this->multiply(at.index, steps.firstAt(step), parity);
      gradientsOfScores(this->scores_, this->products_, this->own_, onePass_.sums[at.index]);
      giveScores(at);
      this->add(at.index);
      __syncwarp();
      releaseStage(onePass_.empty[at.index]);
      if (at.index == consumer_) giveQueries(at);
    }
    if (steps.count() > 0) releaseStage(onePass_.emptyOwn);
  }

 private:
  /// A row of 64 queries is 128 bytes, as TMA would have swizzled them.
  TUTTI_DEVICE void giveScores(const RingStage<2>& at) {
    uint32_t pairs[kTurnRows / 16][4];
    packLeft<Numbers>(pairs, this->products_);
    ptx::mbarrierWait(ptx::sharedAddress(&onePass_.emptyScores[at.index]), at.parity ^ 1);
    const int lane = laneOf();
    const int row = this->firstRow_ + int(threadIdx.x) / 32 % 4 * 16 + lane % 16;
    const uint32_t to = ptx::sharedAddress(onePass_.scores[at.index].bytes + row * 2 * kTurnRows);
#pragma unroll
    for (int i = 0; i < kTurnRows / 16; ++i)
      ptx::stmatrix(to + (((2 * i + lane / 16) ^ row % 8) * 16), pairs[i]);
    ptx::fenceProxyAsyncShared();
    __syncwarp();
    releaseStage(onePass_.fullScores[at.index]);
  }

  TUTTI_DEVICE void giveQueries(const RingStage<2>& at) {
    float sums[kWidth / 2];
    ptx::mbarrierWait(ptx::sharedAddress(&onePass_.fullScores[at.index]), at.parity);
    ptx::wgmmaFence();
#pragma unroll
    for (int key = 0; key < kWideRows; key += 16)
      Numbers::multiplyAlongRows(sums, onePass_.scores[at.index].alongRows(key),
                                 onePass_.own[0].alongRows(key), key > 0);
    ptx::wgmmaCommit();
    ptx::wgmmaWait<0>(sums);
    __syncwarp();
    releaseStage(onePass_.emptyScores[at.index]);
    ptx::mbarrierWait(ptx::sharedAddress(&onePass_.emptyQueries[at.index]), at.parity ^ 1);
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i) {
      // By a name: GCC's ThreadSanitizer would not see it written by the call.
      const float4 four =
          make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
      onePass_.queries[at.index][i][threadIdx.x % 128] = four;
    }
    ptx::fenceProxyAsyncShared();
    __syncwarp();
    releaseStage(onePass_.fullQueries[at.index]);
  }

  OnePassShared<kWidth>& onePass_;
  const int consumer_;
};

template <class Numbers, int kWidth>
__global__ void __launch_bounds__(kWideThreads, 1)
    onePassAttentionGradient(const __grid_constant__ OnePassAttentionBackward a) {
  auto& shared = *dynamicShared<OnePassShared<kWidth>>();
  startOnePass(shared);
  const KeyTiles tiles(a.sizes);
  const int warp = __shfl_sync(kAllLanes, int(threadIdx.x) / 32, 0);
  if (warp < 4) {
    ptx::setMaxRegistersDown<40>();
    if (threadIdx.x == 0)
      takeTiles(shared, a, tiles,
                [&](const HeadTask& task, const TurnSteps& steps, const TilesBefore& before) {
                  produceRows<true>(shared, a, task, steps, before);
                });
    if (warp == 1)
      forTakenTiles(shared, a, tiles,
                    [&](const HeadTask& task, const TurnSteps& steps, const TilesBefore& before) {
                      produceSums(shared, a, task, steps, before);
                    });
    if (warp == 2) {
      QueryTurns<kWidth> turns(shared, a);
      forTakenTiles(shared, a, tiles,
                    [&](const HeadTask& task, const TurnSteps& steps, const TilesBefore& before) {
                      if (laneOf() == 0) turns.add(task, steps, before);
                      __syncwarp();
                    });
      if (laneOf() == 0) turns.finish();
    }
  } else {
    ptx::setMaxRegistersUp<232>();
    forTakenTiles(shared, a, tiles,
                  [&](const HeadTask& task, const TurnSteps& steps, const TilesBefore& before) {
                    OnePassRows<Numbers, kWidth> own(shared, a, task, warp / 4 - 1);
                    own.compute(steps, before);
                    own.write();
                  });
  }
}

/// A block for a tile of queries. Where no key tile has met them, their gradients are zeros.
template <int kWidth>
__global__ void __launch_bounds__(2 * kTurnRows)
    finishQueryGradients(const __grid_constant__ OnePassAttentionBackward a) {
  const auto index = int32_t(blockIdx.x);
  const int32_t tiles = (a.sizes.queries + kTurnRows - 1) / kTurnRows;
  const int32_t head = index / tiles;
  const HeadTask task{head / a.sizes.heads, head % a.sizes.heads, index % tiles * kTurnRows};
  float sums[kWidth / 2] = {};
  if (a.turns[index] != 0) {
    const auto* const from =
        reinterpret_cast<const float4*>(a.sums + int64_t(index) * kTurnRows * kWidth);
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i) {
      const float4 four = from[i * 2 * kTurnRows + int(threadIdx.x)];
      sums[4 * i] = four.x, sums[4 * i + 1] = four.y;
      sums[4 * i + 2] = four.z, sums[4 * i + 3] = four.w;
    }
  }
  const float scale = float(a.sizes.scale), scales[2] = {scale, scale};
  storeSums<kWidth>(a.dQuery, task, task.first + int(threadIdx.x) / 32 * 16, a.sizes.queries, sums,
                    scales, a.adds != 0);
}

}  // namespace tutti::parallel::cuda
