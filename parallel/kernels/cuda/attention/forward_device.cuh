#pragma once

// Forward of attention by tensor cores, for sm_80 and newer ("FlashAttention-2", Dao): a block of
// four warps owns 128 queries of a head, 32 of them to a warp, and goes through the keys that any
// of them sees, 64 at a time, or 32 where heads are wide. Keys and values come by cp.async into two
// stages, one ahead of what is computed.
//
// Scores q k become weights in the registers that they are in (weights_device.cuh), rounded to 16
// bits before they are multiplied by values. Scores are masked in tiles that some row of the block
// does not see as a whole; tiles that none sees are not loaded. Blocks of the longest rows come
// first.
//
// Bound: tensor cores, 4 * 128 * 64 * width operations for 4 * 64 * width bytes of keys and values
// from the L2 cache, or the exponentials, one for each score.

#include "parallel/kernels/cuda/attention/tiles_device.cuh"

namespace tutti::parallel::cuda {

template <int kWidth>
struct ForwardTiles {
  static constexpr int kRowTiles = 2;  ///< of a warp
  static constexpr int kQueries = kHeadWarps * kRowTiles * 16;
  static constexpr int kKeys = kWidth <= 80 ? 64 : 32;
  static constexpr int kSharedBytes = (kQueries + 4 * kKeys) * kHeadPitch<kWidth> * 2;
};

/// What a lane has of its rows.
template <class Numbers, int kWidth>
class ForwardRows {
 public:
  static constexpr int kRowTiles = ForwardTiles<kWidth>::kRowTiles;
  static constexpr int kColumns = ForwardTiles<kWidth>::kKeys / 8;
  using Scores = float[kRowTiles][kColumns][4];

  /// Rows of the warp, from `row` on.
  TUTTI_DEVICE ForwardRows(const AttentionSizes& sizes, int32_t batch, int32_t row)
      : weights_{{sizes, batch, row}, {sizes, batch, row + 16}} {}

  TUTTI_DEVICE void mask(Scores& scores, int32_t firstKey) const {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) weights_[i].mask(scores[i], firstKey);
  }

  /// Scores become weights.
  TUTTI_DEVICE void weigh(Scores& scores) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      float keep[2];
      weights_[i].weigh(scores[i], keep);
      scaleRows(sums_[i], keep);
    }
  }

  TUTTI_DEVICE void add(const Scores& weights, const uint16_t* values) {
    addWeighted<Numbers, kWidth>(sums_, weights, values);
  }

  TUTTI_DEVICE void write(const AttentionForward& x, const HeadTask& task, int32_t row) const {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      float inverses[2];
      weights_[i].finish(x, task.batch, task.head, row + 16 * i, inverses);
      storeSums<kWidth>(x.out, task, row + 16 * i, x.sizes.queries, sums_[i], inverses, false);
    }
  }

 private:
  RowWeights weights_[kRowTiles];
  float sums_[kRowTiles][kWidth / 8][4] = {};
};

template <class Numbers, int kWidth>
__global__ void __launch_bounds__(kHeadThreads)
    attentionForward(const __grid_constant__ AttentionForward x) {
  using Tiles = ForwardTiles<kWidth>;
  constexpr int kKeys = Tiles::kKeys;
  const AttentionSizes& sizes = x.sizes;
  const HeadTask task =
      headTask(sizes, sizes.heads, sizes.queries, Tiles::kQueries, true, sizes.keys);
  const int32_t kvHead = task.head / (sizes.heads / sizes.kvHeads);
  const int32_t end = min(task.first + Tiles::kQueries, sizes.queries);
  const RowRange ofFirst = keysSeen(sizes, task.batch, task.first);
  const RowRange ofLast = keysSeen(sizes, task.batch, end - 1);

  uint16_t* const queries = dynamicShared<uint16_t>();
  const auto keys = [&](int32_t step) {
    return queries + (Tiles::kQueries + step % 2 * 2 * kKeys) * kHeadPitch<kWidth>;
  };
  const auto values = [&](int32_t step) { return keys(step) + kKeys * kHeadPitch<kWidth>; };
  const auto copy = [&](int32_t step) {
    const int32_t first = ofFirst.from + step * kKeys;
    copyHeadRows<kWidth, kKeys>(keys(step), x.key, task.batch, kvHead, first, sizes.keys);
    copyHeadRows<kWidth, kKeys>(values(step), x.value, task.batch, kvHead, first, sizes.keys);
    ptx::cpAsyncCommit();
  };

  const int row = int(threadIdx.x) / 32 * Tiles::kRowTiles * 16;
  ForwardRows<Numbers, kWidth> rows(sizes, task.batch, task.first + row);
  const int32_t steps = (ofLast.to - ofFirst.from + kKeys - 1) / kKeys;
  if (steps > 0) {
    copyHeadRows<kWidth, Tiles::kQueries>(queries, x.query, task.batch, task.head, task.first,
                                          sizes.queries);
    copy(0);
  }
  for (int32_t step = 0; step < steps; ++step) {
    ptx::cpAsyncWait<0>();
    __syncthreads();  // all have copied this step's tiles, and used those of the one before
    if (step + 1 < steps) copy(step + 1);
    const int32_t first = ofFirst.from + step * kKeys;
    typename ForwardRows<Numbers, kWidth>::Scores scores;
    multiplyRows<Numbers, kWidth>(scores, queries, row, keys(step));
    if (first < ofLast.from || first + kKeys > ofFirst.to) rows.mask(scores, first);
    rows.weigh(scores);
    rows.add(scores, values(step));
  }
  rows.write(x, task, task.first + row);
}

}  // namespace tutti::parallel::cuda
