#pragma once

// Forward of attention by tensor cores, for sm_80 and newer ("FlashAttention-2", Dao): a block of
// four warps owns 128 queries of a head, 32 of them to a warp, and goes through the keys that any
// of them sees, 64 at a time, or 32 where heads are wide. Keys and values come by cp.async into two
// stages, one ahead of what is computed.
//
//   scores   s = q k, in float32
//   weights  w = exp2(c (s - the row's largest so far)), with c = log2(e) / sqrt(head width); a
//            larger score scales down what the row has summed up
//   sums     w v, with w rounded to 16 bits in the registers that the scores were in, and of w
//            itself; out is their quotient, log-sum-exp the largest / sqrt(head width) + log(sum)
//
// Every lane adds up the weights that it has of a row, and four lanes join them at the end. Keys
// that a row does not see are minus infinity to it, which is looked at in tiles that some row of
// the block does not see as a whole; tiles that none sees are not loaded. Blocks of the longest
// rows come first.
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
      : factor_(float(sizes.scale) * kLog2E) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        seen_[i][h] = keysSeen(sizes, batch, row + 16 * i + 8 * h + laneOf() / 4);
        largest_[i][h] = minusInfinity<float>();
        total_[i][h] = 0;
      }
  }

  /// Scores of keys that a row does not see become minus infinity.
  TUTTI_DEVICE void mask(Scores& scores, int32_t firstKey) const {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int32_t key = firstKey + 8 * j + laneOf() % 4 * 2 + e % 2;
          const RowRange& seen = seen_[i][e / 2];
          if (key < seen.from || key >= seen.to) scores[i][j][e] = minusInfinity<float>();
        }
  }

  /// Scores become weights.
  TUTTI_DEVICE void weigh(Scores& scores) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) weighRow(scores[i], i, h);
  }

  TUTTI_DEVICE void add(const Scores& weights, const uint16_t* values) {
    addWeighted<Numbers, kWidth>(sums_, weights, values);
  }

  TUTTI_DEVICE void write(const Attention& x, const HeadTask& task, int32_t row) const {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      float inverses[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) inverses[h] = finish(x, task, row + 16 * i, i, h);
      storeSums<kWidth>(x.out, task, row + 16 * i, x.sizes.queries, sums_[i], inverses, false);
    }
  }

 private:
  TUTTI_DEVICE void weighRow(float (&scores)[kColumns][4], int i, int h) {
    float most = largest_[i][h];
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      most = Largest::join(Largest::join(most, scores[j][2 * h]), scores[j][2 * h + 1]);
    most = Largest::join(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = Largest::join(most, __shfl_xor_sync(kAllLanes, most, 2));
    // A row that has seen no key yet has weights of exp2(-infinity - 0).
    const float base = most == minusInfinity<float>() ? 0.0f : most * factor_;
    const float keep = exp2f(largest_[i][h] * factor_ - base);
    largest_[i][h] = most;
    total_[i][h] *= keep;
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
#pragma unroll
      for (int e = 2 * h; e < 2 * h + 2; ++e) {
        scores[j][e] = exp2f(scores[j][e] * factor_ - base);
        total_[i][h] += scores[j][e];
      }
#pragma unroll
    for (int c = 0; c < kWidth / 8; ++c) {
      sums_[i][c][2 * h] *= keep;
      sums_[i][c][2 * h + 1] *= keep;
    }
  }

  /// Writes the log-sum-exp, and returns what the row's sums are to be multiplied by.
  TUTTI_DEVICE float finish(const Attention& x, const HeadTask& task, int32_t row, int i,
                            int h) const {
    float total = total_[i][h];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    const bool isEmpty = seen_[i][h].from == seen_[i][h].to;
    const int32_t own = row + 8 * h + laneOf() / 4;
    if (laneOf() % 4 == 0 && own < x.sizes.queries)
      store<float>(x.logSumExp.elements, placeOf(x.logSumExp, task.batch, task.head, own),
                   isEmpty ? minusInfinity<float>()
                           : largest_[i][h] * float(x.sizes.scale) + logarithm(total));
    return isEmpty ? 0.0f : 1.0f / total;
  }

  const float factor_;  ///< of scores
  RowRange seen_[kRowTiles][2];
  float largest_[kRowTiles][2], total_[kRowTiles][2];
  float sums_[kRowTiles][kWidth / 8][4] = {};
};

template <class Numbers, int kWidth>
__global__ void __launch_bounds__(kHeadThreads)
    attentionForward(const __grid_constant__ Attention x) {
  using Tiles = ForwardTiles<kWidth>;
  constexpr int kKeys = Tiles::kKeys;
  const AttentionSizes& sizes = x.sizes;
  const HeadTask task = headTask(sizes, sizes.heads, sizes.queries, Tiles::kQueries, true);
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
