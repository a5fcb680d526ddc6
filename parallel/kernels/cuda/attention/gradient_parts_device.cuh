#pragma once

// What both backward kernels by tensor cores have in common: what blocks own and what they meet,
// in which order, and what becomes of products (gradient_device.cuh).

#include "parallel/kernels/cuda/attention/tiles_device.cuh"

namespace tutti::parallel::cuda {

/// Of a query: log2(e) times its log-sum-exp, and its dots.
struct RowSums {
  float logSumExp, dots;
};
TUTTI_DEVICE RowSums rowSums(const AttentionBackward& x, int32_t batch, int32_t head,
                             int32_t query) {
  if (query >= x.sizes.queries) return {0, 0};
  return {load<float>(x.logSumExp.elements, placeOf(x.logSumExp, batch, head, query)) * kLog2E,
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

/// Products of own rows and others, of a row tile, become probabilities and gradients of scores.
/// Pairs that do not see each other have neither.
template <bool kOwnsKeys, class Products>
TUTTI_DEVICE void gradientsOfScores(Products& scores, Products& products,
                                    const RowRange (&others)[2], int32_t first, float factor,
                                    const RowSums (&ofRows)[2], const RowSums* ofColumns) {
#pragma unroll
  for (int j = 0; j < kColumnTiles<Products>; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int column = 8 * j + laneOf() % 4 * 2 + e % 2;
      const RowSums sums = kOwnsKeys ? ofColumns[column] : ofRows[e / 2];
      const bool isSeen = first + column >= others[e / 2].from && first + column < others[e / 2].to;
      float &score = elementOf(scores, j, e), &product = elementOf(products, j, e);
      const float probability = exp2f(score * factor - sums.logSumExp);
      score = isSeen ? probability : 0.0f;
      product = isSeen ? probability * (product - sums.dots) : 0.0f;
    }
}

}  // namespace tutti::parallel::cuda
