#pragma once

// Backward of attention for Hopper, without atomics: the sums of gradient_device.cuh, in which
// blocks own rows of queries, or of keys and values, and go through the others that meet them; by
// wgmma and TMA. A block owns 128 rows, and the others come 64 at a time.
//
// Warpgroup 0 produces: one thread issues TMA for the own rows x and y, and for the others' u and v
// as stages of their ring become empty. Where the others are queries, a second warp writes their
// sums beside them. Warpgroups 1 and 2 consume, 64 own rows each:
//
//   products   x u and y v by wgmma, all factors in shared memory
//   gradients  of scores, in the registers of the products, then rounded to 16 bits; exponentials
//              while the second product runs
//   sums       of dS u, and for keys of p v, by wgmma, the left factor in registers
//
//   fullOwn   1 arrival, of the producer, and the bytes of x and y
//   emptyOwn  1 arrival of each of the 8 warps that consume
//   full[s]   the same of u and v, and 32 of the warp that writes sums
//   empty[s]  1 arrival of each of the 8 warps that consume
//
// Where blocks are fewer than tiles of own rows, each takes these in turn, and the producer loads
// the next ones while consumers end those before.
//
// Bound: tensor cores, 3 or 4 products of 2 * 128 * 64 * width operations a step, while one
// warpgroup computes gradients of scores the other's.

#include "parallel/kernels/cuda/attention/gradient_parts_device.cuh"
#include "parallel/kernels/cuda/attention/panels_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kGradientStages = 2, kWideOthers = 64;

template <int kWidth>
struct WgmmaGradientShared {
  HeadPanels<kWidth, kWideRows> own[2];
  HeadPanels<kWidth, kWideOthers> others[kGradientStages][2];
  RowSums sums[kGradientStages][kWideOthers];  ///< where the others are queries
  uint64_t fullOwn, emptyOwn, full[kGradientStages], empty[kGradientStages];
};

/// Maps of the operands, as GradientSides has these.
template <bool kOwnsKeys>
struct GradientMaps {
  const CUtensorMap &x, &y, &u, &v;
  TUTTI_DEVICE explicit GradientMaps(const WgmmaAttentionBackward& a)
      : x(kOwnsKeys ? a.keys : a.queries),
        y(kOwnsKeys ? a.values : a.dOuts),
        u(kOwnsKeys ? a.queries : a.keys),
        v(kOwnsKeys ? a.dOuts : a.values) {}
};

template <bool kOwnsKeys, int kWidth>
TUTTI_DEVICE void startBarriers(WgmmaGradientShared<kWidth>& shared) {
  if (threadIdx.x == 0) {
    ptx::mbarrierInit(ptx::sharedAddress(&shared.fullOwn), 1);
    ptx::mbarrierInit(ptx::sharedAddress(&shared.emptyOwn), kReaders);
    for (int i = 0; i < kGradientStages; ++i) {
      ptx::mbarrierInit(ptx::sharedAddress(&shared.full[i]), kOwnsKeys ? 33 : 1);
      ptx::mbarrierInit(ptx::sharedAddress(&shared.empty[i]), kReaders);
    }
    ptx::fenceMbarrierInit();
  }
  __syncthreads();
}

template <bool kOwnsKeys, int kWidth, class Steps>
TUTTI_DEVICE void produceRows(WgmmaGradientShared<kWidth>& shared, const WgmmaAttentionBackward& a,
                              const HeadTask& task, const Steps& steps, const TilesBefore& before) {
  const GradientMaps<kOwnsKeys> maps(a);
  if (steps.count() > 0) {
    ptx::mbarrierWait(ptx::sharedAddress(&shared.emptyOwn), before.parity() ^ 1);
    ptx::mbarrierArriveExpectTx(ptx::sharedAddress(&shared.fullOwn),
                                2 * HeadPanels<kWidth, kWideRows>::kBytes);
    shared.own[0].load(&maps.x, task.batch, task.head, task.first, shared.fullOwn);
    shared.own[1].load(&maps.y, task.batch, task.head, task.first, shared.fullOwn);
  }
  for (int32_t step = 0; step < steps.count(); ++step) {
    const RingStage<kGradientStages> at(before.steps + step);
    const int32_t head = steps.headAt(step), first = steps.firstAt(step);
    uint64_t& full = shared.full[at.index];
    ptx::mbarrierWait(ptx::sharedAddress(&shared.empty[at.index]), at.parity ^ 1);
    ptx::mbarrierArriveExpectTx(ptx::sharedAddress(&full),
                                2 * HeadPanels<kWidth, kWideOthers>::kBytes);
    shared.others[at.index][0].load(&maps.u, task.batch, head, first, full);
    shared.others[at.index][1].load(&maps.v, task.batch, head, first, full);
  }
}

/// Sums of the others, by a warp.
template <int kWidth, class Steps>
TUTTI_DEVICE void produceSums(WgmmaGradientShared<kWidth>& shared, const AttentionBackward& a,
                              const HeadTask& task, const Steps& steps, const TilesBefore& before) {
  for (int32_t step = 0; step < steps.count(); ++step) {
    const RingStage<kGradientStages> at(before.steps + step);
    ptx::mbarrierWait(ptx::sharedAddress(&shared.empty[at.index]), at.parity ^ 1);
    for (int row = laneOf(); row < kWideOthers; row += 32)
      shared.sums[at.index][row] =
          rowSums(a, task.batch, steps.headAt(step), steps.firstAt(step) + row);
    ptx::mbarrierArrive(ptx::sharedAddress(&shared.full[at.index]));
  }
}

/// A warpgroup's 64 own rows.
template <class Numbers, int kWidth, bool kOwnsKeys>
class WgmmaGradientRows {
 public:
  using Steps = GradientSteps<kOwnsKeys, kWideRows, kWideOthers>;

  TUTTI_DEVICE WgmmaGradientRows(WgmmaGradientShared<kWidth>& shared,
                                 const WgmmaAttentionBackward& a, const HeadTask& task,
                                 int consumer)
      : shared_(shared),
        a_(a),
        task_(task),
        firstRow_(consumer * kGroupRows),
        row_(task.first + firstRow_ + int(threadIdx.x) / 32 % 4 * 16),
        own_(a, task, row_) {}

  TUTTI_DEVICE void compute(const Steps& steps, const TilesBefore& before) {
    const uint32_t parity = before.parity();
    if (steps.count() > 0) ptx::mbarrierWait(ptx::sharedAddress(&shared_.fullOwn), parity);
    for (int32_t step = 0; step < steps.count(); ++step) {
      const RingStage<kGradientStages> at(before.steps + step);
      ptx::mbarrierWait(ptx::sharedAddress(&shared_.full[at.index]), at.parity);
      multiply(at.index, steps.firstAt(step), parity);
      if (step + 1 == steps.count()) releaseStage(shared_.emptyOwn);
      gradientsOfScores(scores_, products_, own_, shared_.sums[at.index]);
      add(at.index);
      __syncwarp();
      releaseStage(shared_.empty[at.index]);
    }
  }

  TUTTI_DEVICE void write() const {
    const int32_t rows = kOwnsKeys ? a_.sizes.keys : a_.sizes.queries;
    const float scale = float(a_.sizes.scale), scales[2] = {scale, scale}, ones[2] = {1, 1};
    storeSums<kWidth>(kOwnsKeys ? a_.dKey : a_.dQuery, task_, row_, rows, sumsOfU_, scales,
                      a_.adds != 0);
    if (kOwnsKeys) storeSums<kWidth>(a_.dValue, task_, row_, rows, sumsOfV_, ones, a_.adds != 0);
  }

 protected:
  /// Probabilities and products of the own rows and others, from `first` on, of a stage; `parity`
  /// is that of the own rows.
  TUTTI_DEVICE void multiply(int stage, int32_t first, uint32_t parity) {
    ptx::wgmmaFence();
#pragma unroll
    for (int column = 0; column < kWidth; column += 16)
      Numbers::multiplyWide(scores_, shared_.own[0].alongColumns(firstRow_, column),
                            shared_.others[stage][0].alongColumns(0, column), column > 0);
    ptx::wgmmaCommit();
#pragma unroll
    for (int column = 0; column < kWidth; column += 16)
      Numbers::multiplyWide(products_, shared_.own[1].alongColumns(firstRow_, column),
                            shared_.others[stage][1].alongColumns(0, column), column > 0);
    ptx::wgmmaCommit();
    ptx::wgmmaWait<1>(scores_);
    probabilities(scores_, own_, first, float(a_.sizes.scale) * kLog2E, shared_.sums[stage]);
    // Long there; but behind a loop, or ptxas would wait for the products before the exponentials
    // and not after them.
    ptx::mbarrierWait(ptx::sharedAddress(&shared_.fullOwn), parity);
    ptx::wgmmaWait<0>(products_);
  }

  TUTTI_DEVICE void add(int stage) {
    uint32_t ofU[kWideOthers / 16][4], ofV[kWideOthers / 16][4];
    packLeft<Numbers>(ofU, products_);
    if (kOwnsKeys) packLeft<Numbers>(ofV, scores_);
    ptx::wgmmaFence();
#pragma unroll
    for (int i = 0; i < kWideOthers / 16; ++i) {
      Numbers::addWide(sumsOfU_, ofU[i], shared_.others[stage][0].alongRows(16 * i));
      if (kOwnsKeys) Numbers::addWide(sumsOfV_, ofV[i], shared_.others[stage][1].alongRows(16 * i));
    }
    ptx::wgmmaCommit();
    ptx::wgmmaWait<0>(sumsOfU_);
    if (kOwnsKeys) ptx::wgmmaWait<0>(sumsOfV_);
  }

  WgmmaGradientShared<kWidth>& shared_;
  const WgmmaAttentionBackward& a_;
  const HeadTask& task_;
  const int firstRow_;  ///< of the warpgroup, in the tile of own rows
  const int32_t row_;   ///< of the warp
  OwnRows<kOwnsKeys> own_;
  float scores_[kWideOthers / 2], products_[kWideOthers / 2];
  float sumsOfU_[kWidth / 2] = {}, sumsOfV_[kWidth / 2] = {};
};

template <class Numbers, int kWidth, bool kOwnsKeys>
__global__ void __launch_bounds__(kWideThreads, 1)
    wgmmaAttentionGradient(const __grid_constant__ WgmmaAttentionBackward a) {
  auto& shared = *dynamicShared<WgmmaGradientShared<kWidth>>();
  startBarriers<kOwnsKeys>(shared);
  const int32_t rows = kOwnsKeys ? a.sizes.keys : a.sizes.queries;
  const int32_t heads = kOwnsKeys ? a.sizes.kvHeads : a.sizes.heads;
  const int warp = __shfl_sync(kAllLanes, int(threadIdx.x) / 32, 0);
  using Steps = GradientSteps<kOwnsKeys, kWideRows, kWideOthers>;
  const auto forEachTile = [&](const auto& work) {
    const int32_t tasks = headTasks(a.sizes, heads, rows, kWideRows);
    TilesBefore before;
#pragma unroll 1
    for (auto index = int32_t(blockIdx.x); index < tasks; index += int32_t(gridDim.x)) {
      const HeadTask task = headTaskOf(index, a.sizes, heads, rows, kWideRows, !kOwnsKeys,
                                       otherRowsOf<kOwnsKeys>(a.sizes));
      const Steps steps(a.sizes, task);
      work(task, steps, before);
      before.add(steps.count());
    }
  };
  if (warp < 4) {
    ptx::setMaxRegistersDown<40>();
    if (threadIdx.x == 0)
      forEachTile([&](const HeadTask& task, const Steps& steps, const TilesBefore& before) {
        produceRows<kOwnsKeys>(shared, a, task, steps, before);
      });
    if (kOwnsKeys && warp == 1)
      forEachTile([&](const HeadTask& task, const Steps& steps, const TilesBefore& before) {
        produceSums(shared, a, task, steps, before);
      });
  } else {
    ptx::setMaxRegistersUp<232>();
    forEachTile([&](const HeadTask& task, const Steps& steps, const TilesBefore& before) {
      WgmmaGradientRows<Numbers, kWidth, kOwnsKeys> own(shared, a, task, warp / 4 - 1);
      own.compute(steps, before);
      own.write();
    });
  }
}

}  // namespace tutti::parallel::cuda
