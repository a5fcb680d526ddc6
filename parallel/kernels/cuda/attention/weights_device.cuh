#pragma once

// Scores become weights as tiles of keys come, one after the other ("Online normalizer calculation
// for softmax", Milakov and Gimelshein):
//
//   weights  w = exp2(c (s - the row's largest so far)), with c = log2(e) / sqrt(head width); a
//            larger score scales down what the row has summed up
//   out      the sum of w v over that of w, and log-sum-exp the largest / sqrt(head width) +
//            log(sum of w)
//
// A lane has elements of two rows of a row tile of 16, as mma.sync and wgmma give them: e of column
// tile j is of row lane / 4 + 8 (e / 2), column 8 j + 2 (lane % 4) + e % 2. Every lane adds up the
// weights that it has of a row, and four lanes join them at the end. Keys that a row does not see
// are minus infinity to it.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/attention_reach_device.cuh"
#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/joined_device.cuh"

namespace tutti::parallel::cuda {

namespace ptx = ::tutti::cuda::ptx;

inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLowest = -0x1.fffffep127f;  ///< of finite numbers

/// Element e of column tile j: mma.sync has an array for each tile, wgmma one for all.
template <class Float, int kTiles>
TUTTI_DEVICE Float& elementOf(Float (&x)[kTiles][4], int j, int e) {
  return x[j][e];
}
template <class Float, int kCount>
TUTTI_DEVICE Float& elementOf(Float (&x)[kCount], int j, int e) {
  return x[4 * j + e];
}

template <class Products>
inline constexpr int kColumnTiles = int(sizeof(Products) / (4 * sizeof(float)));

/// Scores of a row tile, their columns from `first` on, become minus infinity where a lane's two
/// rows do not see these.
template <class Scores>
TUTTI_DEVICE void maskScores(Scores& scores, const RowRange (&seen)[2], int32_t first) {
  first += laneOf() % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int32_t from = seen[h].from - first, to = seen[h].to - first;
#pragma unroll
    for (int j = 0; j < kColumnTiles<Scores>; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (8 * j + e < from || 8 * j + e >= to)
          elementOf(scores, j, 2 * h + e) = minusInfinity<float>();
  }
}

/// What a lane has of its two rows of a row tile.
class RowWeights {
 public:
  /// The row tile begins with `row`.
  TUTTI_DEVICE RowWeights(const AttentionSizes& sizes, int32_t batch, int32_t row)
      : factor_(float(sizes.scale) * kLog2E) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      seen_[h] = keysSeen(sizes, batch, row + 8 * h + laneOf() / 4);
      largest_[h] = minusInfinity<float>();
      total_[h] = 0;
    }
  }

  /// Scores of keys that a row does not see become minus infinity.
  template <class Scores>
  TUTTI_DEVICE void mask(Scores& scores, int32_t firstKey) const {
    maskScores(scores, seen_, firstKey);
  }

  /// Scores become weights. What a row has summed up is to be multiplied by its `keep`.
  template <class Scores>
  TUTTI_DEVICE void weigh(Scores& scores, float (&keep)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = largest_[h];  // never NaN: of a score that is, only the weight becomes that
#pragma unroll
      for (int j = 0; j < kColumnTiles<Scores>; ++j)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) most = fmaxf(most, elementOf(scores, j, e));
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
      // A row that has seen no key yet has weights of exp2(-infinity - base), a finite one.
      // Products are rounded before they are subtracted: where the largest score is what it was,
      // sums have to be kept as they are, and not be multiplied by a rounding error at every step.
      const float base = fmaxf(__fmul_rn(most, factor_), kLowest);
      keep[h] = ptx::exp2Approximate(__fmul_rn(largest_[h], factor_) - base);
      largest_[h] = most;
      total_[h] *= keep[h];
#pragma unroll
      for (int j = 0; j < kColumnTiles<Scores>; ++j)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) {
          float& score = elementOf(scores, j, e);
          score = ptx::exp2Approximate(score * factor_ - base);
          total_[h] += score;
        }
    }
  }

  /// Writes the log-sum-exp of rows of the row tile that begins with `row`, and gives what their
  /// sums are to be multiplied by.
  TUTTI_DEVICE void finish(const AttentionForward& x, int32_t batch, int32_t head, int32_t row,
                           float (&inverses)[2]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float total = total_[h];
      total += __shfl_xor_sync(kAllLanes, total, 1);
      total += __shfl_xor_sync(kAllLanes, total, 2);
      const bool isEmpty = seen_[h].from == seen_[h].to;
      const int32_t own = row + 8 * h + laneOf() / 4;
      if (laneOf() % 4 == 0 && own < x.sizes.queries)
        store<float>(x.logSumExp.elements, placeOf(x.logSumExp, batch, head, own),
                     isEmpty ? minusInfinity<float>()
                             : largest_[h] * float(x.sizes.scale) + logarithm(total));
      inverses[h] = isEmpty ? 0.0f : 1.0f / total;
    }
  }

 private:
  const float factor_;  ///< of scores
  RowRange seen_[2];
  float largest_[2], total_[2];
};

/// What has been summed up of a row tile, times a factor for each of a lane's two rows.
template <class Sums>
TUTTI_DEVICE void scaleRows(Sums& sums, const float (&factors)[2]) {
#pragma unroll
  for (int j = 0; j < kColumnTiles<Sums>; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) elementOf(sums, j, e) *= factors[e / 2];
}

}  // namespace tutti::parallel::cuda
