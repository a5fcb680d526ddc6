#pragma once

// What both backward kernels by tensor cores have in common: what blocks own and what they meet,
// in which order, and what becomes of products (gradient_device.cuh).

#include "parallel/kernels/cuda/attention/tiles_device.cuh"

namespace tutti::parallel::cuda {

/// Of a query: log2(e) times its log-sum-exp, and its dots. Where it sees no key, the former is
/// minus infinity, which could not be subtracted from scores that are masked: 0 serves there.
struct RowSums {
  float logSumExp, dots;
};
TUTTI_DEVICE RowSums rowSums(const AttentionBackward& x, int32_t batch, int32_t head,
                             int32_t query) {
  if (query >= x.sizes.queries) return {0, 0};
  const float sum = load<float>(x.logSumExp.elements, placeOf(x.logSumExp, batch, head, query));
  return {sum == minusInfinity<float>() ? 0.0f : sum * kLog2E,
          load<float>(x.dots.elements, placeOf(x.dots, batch, head, query))};
}

/// Which operands are whose.
template <bool kOwnsKeys>
struct GradientSides {
  const HeadRows &x, &y, &u, &v;
  TUTTI_DEVICE explicit GradientSides(const AttentionBackward& a)
      : x(kOwnsKeys ? a.key : a.query),
        y(kOwnsKeys ? a.value : a.dOut),
        u(kOwnsKeys ? a.query : a.key),
        v(kOwnsKeys ? a.dOut : a.value) {}
};

template <bool kOwnsKeys>
TUTTI_DEVICE RowRange othersOf(const AttentionSizes& sizes, int32_t batch, int32_t row) {
  return kOwnsKeys ? queriesSeeing(sizes, batch, row) : keysSeen(sizes, batch, row);
}

/// Of all heads that a head's own rows serve.
template <bool kOwnsKeys>
TUTTI_DEVICE int64_t otherRowsOf(const AttentionSizes& sizes) {
  return kOwnsKeys ? int64_t{sizes.queries} * (sizes.heads / sizes.kvHeads) : sizes.keys;
}

/// Steps of a block: over the heads whose rows the others are, and for each over rows.
template <bool kOwnsKeys, int kOwn, int kOthers>
class GradientSteps {
 public:
  TUTTI_DEVICE GradientSteps(const AttentionSizes& sizes, const HeadTask& task) {
    const int32_t rows = kOwnsKeys ? sizes.keys : sizes.queries;
    const int32_t served = sizes.heads / sizes.kvHeads;
    const int32_t last = min(task.first + kOwn, rows) - 1;
    from_ = othersOf<kOwnsKeys>(sizes, task.batch, task.first).from;
    ofHead_ = (othersOf<kOwnsKeys>(sizes, task.batch, last).to - from_ + kOthers - 1) / kOthers;
    head_ = kOwnsKeys ? task.head * served : task.head / served;
    count_ = kOwnsKeys ? ofHead_ * served : ofHead_;
  }
  TUTTI_DEVICE int32_t count() const { return count_; }
  TUTTI_DEVICE int32_t headAt(int32_t step) const { return head_ + step / ofHead_; }
  TUTTI_DEVICE int32_t firstAt(int32_t step) const { return from_ + step % ofHead_ * kOthers; }

 private:
  int32_t from_, ofHead_, head_, count_;
};

/// What a lane knows of its two own rows of the row tile of its warp.
template <bool kOwnsKeys>
struct OwnRows {
  RowRange met[2];
  RowSums sums[2] = {};

  /// The row tile begins with `row`.
  TUTTI_DEVICE OwnRows(const AttentionBackward& x, const HeadTask& task, int32_t row) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int32_t own = row + laneOf() / 4 + 8 * h;
      met[h] = othersOf<kOwnsKeys>(x.sizes, task.batch, own);
      if (!kOwnsKeys) sums[h] = rowSums(x, task.batch, task.head, own);
    }
  }
  /// Whether each row of the row tile meets all others of [first, end).
  TUTTI_DEVICE bool meetAll(int32_t first, int32_t end) const {
    return __all_sync(kAllLanes, first >= met[0].from && end <= met[0].to && first >= met[1].from &&
                                     end <= met[1].to);
  }
};

/// Scores of own rows and others from `first` on, of a row tile, become probabilities, which are 0
/// of pairs that do not see each other. In most tiles all do; others behind the last one are met by
/// no row.
template <bool kOwnsKeys, class Products>
TUTTI_DEVICE void probabilities(Products& scores, const OwnRows<kOwnsKeys>& own, int32_t first,
                                float factor, const RowSums* ofColumns) {
  if (!own.meetAll(first, first + 8 * kColumnTiles<Products>)) maskScores(scores, own.met, first);
#pragma unroll
  for (int j = 0; j < kColumnTiles<Products>; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int column = 8 * j + laneOf() % 4 * 2 + e % 2;
      const float sum = kOwnsKeys ? ofColumns[column].logSumExp : own.sums[e / 2].logSumExp;
      float& score = elementOf(scores, j, e);
      score = ptx::exp2Approximate(score * factor - sum);
    }
}

/// And their products become gradients of the scores.
template <bool kOwnsKeys, class Products>
TUTTI_DEVICE void gradientsOfScores(const Products& probabilities, Products& products,
                                    const OwnRows<kOwnsKeys>& own, const RowSums* ofColumns) {
#pragma unroll
  for (int j = 0; j < kColumnTiles<Products>; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int column = 8 * j + laneOf() % 4 * 2 + e % 2;
      const float dots = kOwnsKeys ? ofColumns[column].dots : own.sums[e / 2].dots;
      float& product = elementOf(products, j, e);
      product = elementOf(probabilities, j, e) * (product - dots);
    }
}

}  // namespace tutti::parallel::cuda
