#pragma once

// Forward of attention for Hopper ("FlashAttention-3", Shah et al.): a block owns 128 queries of a
// head and goes through the keys that any of them sees, 128 at a time.
//
// Warpgroup 0 produces: one thread issues TMA for the queries, and for keys and values as stages of
// their rings become empty. Warpgroups 1 and 2 consume, 64 queries each (or 1 to 3, of 192 queries:
// numbers in brackets):
//
//   scores   q k by wgmma, both factors in shared memory
//   weights  in the registers of the scores (weights_device.cuh), then rounded to 16 bits
//   sums     of weights times values by wgmma, the left factor in registers
//
// Each issues the scores of a step together with the sums of the step before, and then computes its
// weights while the others' products run: they take turns. So tensor cores and exponentials work at
// the same time.
//
//   fullQueries            1 arrival, of the producer, and the tile's bytes
//   emptyQueries           1 arrival of each of the 8 (12) warps that consume
//   fullKeys, fullValues   for each stage the same
//   emptyKeys, emptyValues for each stage 1 arrival of each of the 8 (12) warps that consume
//   named barriers 1 to 2 (3)  turns of these warpgroups: the 128 threads of one wait, and those of
//                          the one before arrive
//
// Keys beyond the last are zeros, and no row sees them: scores are masked in tiles that some row of
// the warpgroup does not see as a whole; tiles that none of the block sees are not loaded. Blocks
// of the longest rows come first. Where blocks are fewer than tiles of queries, each takes these in
// turn, and the producer loads the next tile while consumers end the one before.
//
// Bound: tensor cores, 16 * width cycles of a multiprocessor for 128 queries and 128 keys, or 1024
// for their exponentials, whichever is more; they overlap as far as turns let them. Of 64 columns
// both are as many: with three warpgroups one may compute exponentials, one maxima, sums and what
// is rounded, while the third one's products run. Their registers, 160 each, are enough for that
// width.

#include "parallel/kernels/cuda/attention/panels_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kForwardStages = 2;

/// Of a block in which so many warpgroups consume.
template <int kGroups>
inline constexpr int kForwardThreads = (kGroups + 1) * 128;
template <int kGroups>
inline constexpr int kForwardRows = kGroups* kGroupRows;
template <int kGroups>
inline constexpr int kForwardReaders = kGroups * 4;

template <int kWidth, int kGroups>
struct WgmmaForwardShared {
  HeadPanels<kWidth, kForwardRows<kGroups>> queries;
  HeadPanels<kWidth, kWideRows> keys[kForwardStages], values[kForwardStages];
  uint64_t fullQueries, emptyQueries;
  uint64_t fullKeys[kForwardStages], emptyKeys[kForwardStages];
  uint64_t fullValues[kForwardStages], emptyValues[kForwardStages];
};

template <int kWidth, int kGroups>
TUTTI_DEVICE void startBarriers(WgmmaForwardShared<kWidth, kGroups>& shared) {
  constexpr int kReadersOfStage = kForwardReaders<kGroups>;
  if (threadIdx.x == 0) {
    ptx::mbarrierInit(ptx::sharedAddress(&shared.fullQueries), 1);
    ptx::mbarrierInit(ptx::sharedAddress(&shared.emptyQueries), kReadersOfStage);
    for (int i = 0; i < kForwardStages; ++i) {
      ptx::mbarrierInit(ptx::sharedAddress(&shared.fullKeys[i]), 1);
      ptx::mbarrierInit(ptx::sharedAddress(&shared.fullValues[i]), 1);
      ptx::mbarrierInit(ptx::sharedAddress(&shared.emptyKeys[i]), kReadersOfStage);
      ptx::mbarrierInit(ptx::sharedAddress(&shared.emptyValues[i]), kReadersOfStage);
    }
    ptx::fenceMbarrierInit();
  }
  __syncthreads();
}

/// The keys that any of a block's queries sees: `count` steps from `first` on.
struct ForwardSteps {
  int32_t first, count;
  TUTTI_DEVICE ForwardSteps(const AttentionSizes& sizes, const HeadTask& task, int32_t tileRows) {
    const int32_t last = min(task.first + tileRows, sizes.queries) - 1;
    first = keysSeen(sizes, task.batch, task.first).from;
    count = (keysSeen(sizes, task.batch, last).to - first + kWideRows - 1) / kWideRows;
  }
};

template <int kWidth, int kGroups>
TUTTI_DEVICE void produce(WgmmaForwardShared<kWidth, kGroups>& shared, const WgmmaAttention& x,
                          const HeadTask& task, const ForwardSteps& steps,
                          const TilesBefore& before) {
  const int32_t kvHead = task.head / (x.sizes.heads / x.sizes.kvHeads);
  for (int32_t step = 0; step < steps.count; ++step) {
    const RingStage<kForwardStages> at(before.steps + step);
    const int32_t first = steps.first + step * kWideRows;
    if (step == 0) {
      ptx::mbarrierWait(ptx::sharedAddress(&shared.emptyQueries), before.parity() ^ 1);
      fill(shared.queries, shared.fullQueries, &x.queries, task.batch, task.head, task.first);
    }
    ptx::mbarrierWait(ptx::sharedAddress(&shared.emptyKeys[at.index]), at.parity ^ 1);
    fill(shared.keys[at.index], shared.fullKeys[at.index], &x.keys, task.batch, kvHead, first);
    ptx::mbarrierWait(ptx::sharedAddress(&shared.emptyValues[at.index]), at.parity ^ 1);
    fill(shared.values[at.index], shared.fullValues[at.index], &x.values, task.batch, kvHead,
         first);
  }
}

/// Turns of the warpgroups that consume.
template <int kGroups>
class Turns {
 public:
  TUTTI_DEVICE explicit Turns(int consumer) : consumer_(consumer) {}
  /// The last lets the first begin.
  TUTTI_DEVICE void open() const {
    if (isLast()) pass();
  }
  TUTTI_DEVICE void take() const { ptx::barSync(uint32_t(1 + consumer_), kThreadsOfTwo); }
  TUTTI_DEVICE void pass() const {
    ptx::barArrive(uint32_t(isLast() ? 1 : 2 + consumer_), kThreadsOfTwo);
  }
  /// After the last step nobody waits for the last any more.
  TUTTI_DEVICE void pass(bool isLastStep) const {
    if (!isLastStep || !isLast()) pass();
  }

 private:
  static constexpr uint32_t kThreadsOfTwo = 256;
  TUTTI_DEVICE bool isLast() const { return consumer_ == kGroups - 1; }
  const int consumer_;
};

/// A warpgroup's 64 queries.
template <class Numbers, int kWidth, int kGroups>
class WgmmaForwardRows {
 public:
  TUTTI_DEVICE WgmmaForwardRows(WgmmaForwardShared<kWidth, kGroups>& shared,
                                const WgmmaAttention& x, const HeadTask& task,
                                const ForwardSteps& steps, const TilesBefore& before, int consumer)
      : shared_(shared),
        x_(x),
        task_(task),
        steps_(steps),
        before_(before),
        turns_(consumer),
        firstRow_(consumer * kGroupRows),
        row_(task.first + firstRow_ + int(threadIdx.x) / 32 % 4 * 16),
        rows_(x.sizes, task.batch, row_) {
    const int32_t first = task.first + firstRow_;
    const int32_t last = min(first + kGroupRows, x.sizes.queries) - 1;
    seenByAll_ = {keysSeen(x.sizes, task.batch, last).from,
                  keysSeen(x.sizes, task.batch, first).to};
  }

  TUTTI_DEVICE void compute() {
    if (steps_.count > 0) {
      ptx::mbarrierWait(ptx::sharedAddress(&shared_.fullQueries), before_.parity());
      first();
      if (steps_.count > 1) turns_.open();
      for (int32_t step = 1; step < steps_.count; ++step) next(step);
      last();
    }
    float inverses[2];
    rows_.finish(x_, task_.batch, task_.head, row_, inverses);
    storeSums<kWidth>(x_.out, task_, row_, x_.sizes.queries, sums_, inverses, false);
  }

 private:
  TUTTI_DEVICE RingStage<kForwardStages> stageAt(int32_t step) const {
    return RingStage<kForwardStages>(before_.steps + step);
  }

  TUTTI_DEVICE void first() {
    awaitKeys(0);
    const RingStage<kForwardStages> at = stageAt(0);
    ptx::wgmmaFence();
    issueScores(at.index);
    ptx::wgmmaWait<0>(scores_);
    releaseScored(0, at.index);
    float keep[2];
    weigh(0, keep);
    packLeft<Numbers>(weights_, scores_);
    awaitKeys(1);
  }

  TUTTI_DEVICE void next(int32_t step) {
    const RingStage<kForwardStages> at = stageAt(step), before = stageAt(step - 1);
    ptx::mbarrierWait(ptx::sharedAddress(&shared_.fullValues[before.index]), before.parity);
    turns_.take();
    ptx::wgmmaFence();
    issueScores(at.index);
    issueSums(before.index);
    turns_.pass(step + 1 == steps_.count);
    ptx::wgmmaWait<1>(scores_);
    releaseScored(step, at.index);
    float keep[2];
    weigh(step, keep);
    // Behind a loop, or ptxas would wait for the sums before the exponentials and not after them.
    awaitKeys(step + 1);
    ptx::wgmmaWait<0>(sums_);
    releaseStage(shared_.emptyValues[before.index]);
    scaleRows(sums_, keep);
    packLeft<Numbers>(weights_, scores_);
  }

  TUTTI_DEVICE void last() {
    const RingStage<kForwardStages> at = stageAt(steps_.count - 1);
    ptx::mbarrierWait(ptx::sharedAddress(&shared_.fullValues[at.index]), at.parity);
    ptx::wgmmaFence();
    issueSums(at.index);
    ptx::wgmmaWait<0>(sums_);
    releaseStage(shared_.emptyValues[at.index]);
  }

  /// Scores of a step have been computed: of the last one nobody needs the queries any more.
  TUTTI_DEVICE void releaseScored(int32_t step, int stage) {
    releaseStage(shared_.emptyKeys[stage]);
    if (step + 1 == steps_.count) releaseStage(shared_.emptyQueries);
  }

  TUTTI_DEVICE void awaitKeys(int32_t step) {
    const RingStage<kForwardStages> at = stageAt(step);
    if (step < steps_.count)
      ptx::mbarrierWait(ptx::sharedAddress(&shared_.fullKeys[at.index]), at.parity);
  }

  TUTTI_DEVICE void issueScores(int stage) {
#pragma unroll
    for (int column = 0; column < kWidth; column += 16)
      Numbers::multiplyWide(scores_, shared_.queries.alongColumns(firstRow_, column),
                            shared_.keys[stage].alongColumns(0, column), column > 0);
    ptx::wgmmaCommit();
  }

  TUTTI_DEVICE void issueSums(int stage) {
#pragma unroll
    for (int i = 0; i < kWideRows / 16; ++i)
      Numbers::addWide(sums_, weights_[i], shared_.values[stage].alongRows(16 * i));
    ptx::wgmmaCommit();
  }

  TUTTI_DEVICE void weigh(int32_t step, float (&keep)[2]) {
    const int32_t from = steps_.first + step * kWideRows;
    if (from < seenByAll_.from || from + kWideRows > seenByAll_.to) rows_.mask(scores_, from);
    rows_.weigh(scores_, keep);
  }

  WgmmaForwardShared<kWidth, kGroups>& shared_;
  const WgmmaAttention& x_;
  const HeadTask& task_;
  const ForwardSteps& steps_;
  const TilesBefore& before_;
  const Turns<kGroups> turns_;
  const int firstRow_;  ///< of the warpgroup, in the tile of queries
  const int32_t row_;   ///< of the warp
  RowWeights rows_;
  RowRange seenByAll_;  ///< keys that each row of the warpgroup sees
  float scores_[kWideRows / 2], sums_[kWidth / 2] = {};
  uint32_t weights_[kWideRows / 16][4];
};

template <class Numbers, int kWidth, int kGroups>
__global__ void __launch_bounds__(kForwardThreads<kGroups>, 1)
    wgmmaAttentionForward(const __grid_constant__ WgmmaAttention x) {
  constexpr int32_t kRows = kForwardRows<kGroups>;
  auto& shared = *dynamicShared<WgmmaForwardShared<kWidth, kGroups>>();
  startBarriers(shared);
  const int warpgroup = __shfl_sync(kAllLanes, int(threadIdx.x) / 128, 0);
  const auto forEachTile = [&x](const auto& work) {
    const AttentionSizes& sizes = x.sizes;
    const int32_t tasks = headTasks(sizes, sizes.heads, sizes.queries, kRows);
    TilesBefore before;
#pragma unroll 1
    for (auto index = int32_t(blockIdx.x); index < tasks; index += int32_t(gridDim.x)) {
      const HeadTask task =
          headTaskOf(index, sizes, sizes.heads, sizes.queries, kRows, true, sizes.keys);
      const ForwardSteps steps(sizes, task, kRows);
      work(task, steps, before);
      before.add(steps.count);
    }
  };
  if (warpgroup == 0) {
    ptx::setMaxRegistersDown<24>();
    if (threadIdx.x == 0)
      forEachTile([&](const HeadTask& task, const ForwardSteps& steps, const TilesBefore& before) {
        produce(shared, x, task, steps, before);
      });
  } else {
    ptx::setMaxRegistersUp<kGroups == 2 ? 240 : 160>();
    forEachTile([&](const HeadTask& task, const ForwardSteps& steps, const TilesBefore& before) {
      WgmmaForwardRows<Numbers, kWidth, kGroups>(shared, x, task, steps, before, warpgroup - 1)
          .compute();
    });
  }
}

}  // namespace tutti::parallel::cuda
