#pragma once

// A row's softmax, put together from what ranks have of it, and what becomes of its logits: the
// same expressions in the reference kernels and in those of vectorized/, of which either may be a
// rank's for its part of the vocabulary.

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/cuda/placed_rows_device.cuh"

namespace tutti::parallel::cuda {

/// Below every logit: where the largest of none begins, as on the host.
TUTTI_DEVICE float lowestLogit(float) { return -3.0e38f; }
TUTTI_DEVICE double lowestLogit(double) { return -1.0e308; }

/// The label's logit, or 0 where that is elsewhere or does not count.
template <class T, class Call>
TUTTI_DEVICE T chosenLogit(const Call& x, int64_t row) {
  const int32_t label = rowIn(x.part, x.labels[row]);
  return label < 0 ? T(0) : load<T>(x.logits, row * x.stride + label);
}
/// Of one thread, when all of the row's logits were seen.
template <class T>
TUTTI_DEVICE void storeStatistics(const LogitStatistics& x, int64_t row, T largest, T sum,
                                  T chosen) {
  store<T>(x.statistics, 3 * row, largest);
  store<T>(x.statistics, 3 * row + 1, sum);
  store<T>(x.statistics, 3 * row + 2, chosen);
}

/// Of the whole vocabulary.
struct JoinedStatistics {
  double largest, sum, chosen;
};
/// Those of a row that does not count: its loss is 0.
TUTTI_DEVICE JoinedStatistics ofNoLoss() { return {0, 1, 0}; }
/// Of a row that counts, from what all ranks have given. Ranks are taken in their order.
template <class T>
TUTTI_DEVICE JoinedStatistics joinedStatistics(const CrossEntropy& x, int64_t row) {
  const int64_t rank = int64_t(x.rows) * 3;
  const auto of = [&](int64_t r, int64_t which) {
    return double(load<T>(x.statistics, r * rank + 3 * row + which));
  };
  JoinedStatistics joined{of(0, 0), 0, 0};
  for (int64_t r = 1; r < x.ranks; ++r) joined.largest = Largest::join(joined.largest, of(r, 0));
  for (int64_t r = 0; r < x.ranks; ++r) {
    // Rounded twice in every kernel: losses have the same bits on all ranks.
    joined.sum = __dadd_rn(joined.sum, __dmul_rn(of(r, 1), exp(of(r, 0) - joined.largest)));
    joined.chosen += of(r, 2);
  }
  return joined;
}

TUTTI_DEVICE void storeLoss(const CrossEntropy& x, int64_t row, const JoinedStatistics& joined) {
  x.losses[row] = log(joined.sum) - (joined.chosen - joined.largest);
}

/// From a logit to the loss's slope, but for the label's, which is `scale` less.
template <class T>
struct LogitSlopes {
  T largest, scale, factor;
  TUTTI_DEVICE LogitSlopes(const JoinedStatistics& row, double scaleOfAll)
      : largest(T(row.largest)), scale(T(scaleOfAll)), factor(scale / T(row.sum)) {}
  TUTTI_DEVICE T of(T logit) const { return exponential(logit - largest) * factor; }
};

}  // namespace tutti::parallel::cuda
