#pragma once

// Norms of rows that stay in registers: a row is read once, in words of 16 bytes, by a warp where
// it is narrow and by a block where it is not. What is summed of it is summed by each thread in the
// order of its columns, and joined by a tree. Runs are of 8 elements in float32, too, so that the
// order is the same whatever the types: a result of 16 bits is that of float32, rounded.
//
// Bound: the memory's bandwidth; bytes of an element, of which the type has b:
//   norm            read b, write b; of a sum with a residual, which is kept, read 2 b, write 2 b
//   normBackward    read 2 b, with a residual 3 b, write b
// The weight and the bias come from the first cache and the second, before a row's sums are joined,
// as all that a thread reads of a row: what it waits for it waits for once. A row's mean and rstd
// are one number for all of its elements.
//
// Of 16 bits the second bound is near: arithmetic, a dozen and a half instructions for an element.
// So kernels are compiled for operands that are all of one of these formats, besides those that
// look at each operand's. Of a wide row a block has one, and several blocks are on a processor at a
// time.

#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/streaming/arguments.h"
#include "parallel/kernels/cuda/streaming/runs_device.cuh"

namespace tutti::parallel::cuda {

/// What a thread has of a row that so many threads share: kRuns runs, those beyond the width left
/// out. A block has kThreadsOfBlock threads: as many rows of a warp each, or one row.
template <int kThreadsOfRow, int kRuns>
struct RowShare {
  static constexpr int kThreadsOfBlock = kThreadsOfRow == 32 ? 128 : kThreadsOfRow;
  static constexpr int kRowsOfBlock = kThreadsOfBlock / kThreadsOfRow;

  static TUTTI_DEVICE int32_t row() {
    return int32_t(blockIdx.x) * kRowsOfBlock + int32_t(threadIdx.x) / kThreadsOfRow;
  }
  static TUTTI_DEVICE int32_t thread() { return int32_t(threadIdx.x) % kThreadsOfRow; }

  /// Calls visit(index of a run, its first column).
  template <class Visit>
  static TUTTI_DEVICE void forRuns(int32_t width, const Visit& visit) {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      const int32_t column = (thread() + i * kThreadsOfRow) * kNormRun;
      if (column < width) visit(i, column);
    }
  }

  /// Each in the place of what the row's threads have of it; all of them get it. A block has room
  /// for one such call of each kCall: nobody waits until all have read.
  template <int kCall, int kSums>
  static TUTTI_DEVICE void join(float (&sums)[kSums]) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = joinWarp<Sum>(sums[i]);
    if constexpr (kThreadsOfRow > 32) {
      constexpr int kWarps = kThreadsOfRow / 32;
      TUTTI_SHARED(float, ofWarps, [kSums][kWarps]);
#pragma unroll
      for (int i = 0; i < kSums; ++i)
        if (laneOf() == 0) ofWarps[i][threadIdx.x / 32] = sums[i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        sums[i] = ofWarps[i][0];
#pragma unroll
        for (int warp = 1; warp < kWarps; ++warp) sums[i] += ofWarps[i][warp];
      }
    }
  }
};

/// Of operands that are all of one format, when that is known.
template <int kKnown>
TUTTI_DEVICE Norm known(const Norm& x) {
  Norm same = x;
  for (Elements* each : {&same.x, &same.weight, &same.bias, &same.y, &same.residual})
    *each = known<kKnown>(*each);
  return same;
}
template <int kKnown>
TUTTI_DEVICE NormBackward known(const NormBackward& x) {
  NormBackward same = x;
  for (Elements* each : {&same.dy, &same.x, &same.weight, &same.residual, &same.dx})
    *each = known<kKnown>(*each);
  return same;
}

/// Rounded, as it is stored.
TUTTI_DEVICE Words<kNormRun> sumOf(const Words<kNormRun>& x, Format formatOfX,
                                   const Words<kNormRun>& residual, Format formatOfResidual) {
  float sum[kNormRun], more[kNormRun];
  widenWords(x, formatOfX, sum);
  widenWords(residual, formatOfResidual, more);
#pragma unroll
  for (int k = 0; k < kNormRun; ++k) sum[k] += more[k];
  return narrowWords(sum, formatOfX);
}

/// kAdds: there is a residual.
template <int kThreadsOfRow, int kRuns, bool kAdds, int kKnown>
__global__ void __launch_bounds__(RowShare<kThreadsOfRow, kRuns>::kThreadsOfBlock)
    normOfRows(const __grid_constant__ Norm given) {
  using Share = RowShare<kThreadsOfRow, kRuns>;
  const Norm x = known<kKnown>(given);
  const int32_t row = Share::row();
  if (row >= x.rows) return;  // a whole warp
  const int64_t first = int64_t(row) * x.width;
  const bool centered = x.mean.data != nullptr;
  Words<kNormRun> words[kRuns] = {}, residuals[kAdds ? kRuns : 1] = {};
  Words<kNormRun> weights[kRuns] = {};
  Share::forRuns(x.width, [&](int i, int32_t column) {
    words[i] = loadWords<kNormRun>(x.x, first + column);
    if constexpr (kAdds) residuals[i] = loadWords<kNormRun>(x.residual, first + column);
  });
  Share::forRuns(
      x.width, [&](int i, int32_t column) { weights[i] = loadWords<kNormRun>(x.weight, column); });

  float in[kRuns][kNormRun] = {}, sum[1] = {}, squares[1] = {}, mean = 0;
  Share::forRuns(x.width, [&](int i, int32_t column) {
    if constexpr (kAdds) {
      words[i] = sumOf(words[i], x.x.format, residuals[i], x.residual.format);
      storeWords(x.x, first + column, words[i]);
    }
    widenWords(words[i], x.x.format, in[i]);
#pragma unroll
    for (int k = 0; k < kNormRun; ++k) sum[0] += in[i][k];
  });
  if (centered) {
    Share::template join<0>(sum);
    mean = sum[0] / float(x.width);
    Share::forRuns(x.width, [&](int i, int32_t) {
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) in[i][k] -= mean;
    });
  }
  Share::forRuns(x.width, [&](int i, int32_t) {
#pragma unroll
    for (int k = 0; k < kNormRun; ++k) squares[0] += in[i][k] * in[i][k];
  });
  Share::template join<1>(squares);
  const float variance = squares[0] / float(x.width);
  const float rstd = 1.0f / squareRoot(variance + float(x.epsilon));

  Share::forRuns(x.width, [&](int i, int32_t column) {
    float weight[kNormRun];
    widenWords(weights[i], x.weight.format, weight);
#pragma unroll
    for (int k = 0; k < kNormRun; ++k) in[i][k] = in[i][k] * rstd * weight[k];
    if (centered) {
      float bias[kNormRun];
      // Of the caches: registers for it would take a block from the multiprocessor.
      widenWords(loadWords<kNormRun>(x.bias, column), x.bias.format, bias);
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) in[i][k] += bias[k];
    }
    storeRun(x.y, first + column, in[i]);
  });
  if (Share::thread() != 0) return;
  if (centered) store<float>(x.mean, row, mean);
  store<float>(x.rstd, row, rstd);
}

/// dx may be dy or the residual: a run is written by the thread that has read it. kAdds: there is a
/// residual.
template <int kThreadsOfRow, int kRuns, bool kAdds, int kKnown>
__global__ void __launch_bounds__(RowShare<kThreadsOfRow, kRuns>::kThreadsOfBlock)
    normBackwardOfRows(const __grid_constant__ NormBackward given) {
  using Share = RowShare<kThreadsOfRow, kRuns>;
  // Of any format runs take twice the registers: the residual is read later, the weight twice.
  constexpr bool kAhead = kKnown != kAnyFormat;
  const NormBackward x = known<kKnown>(given);
  const int32_t row = Share::row();
  if (row >= x.rows) return;  // a whole warp
  const int64_t first = int64_t(row) * x.width;
  const bool centered = x.mean.data != nullptr;
  const auto weightOf = [&](int32_t column) { return loadWords<kNormRun>(x.weight, column); };
  const auto residualOf = [&](int32_t column) {
    return loadWords<kNormRun>(x.residual, first + column);
  };
  Words<kNormRun> dys[kRuns] = {}, xs[kRuns] = {};
  Words<kNormRun> weights[kAhead ? kRuns : 1] = {}, residuals[kAhead && kAdds ? kRuns : 1] = {};
  Share::forRuns(x.width, [&](int i, int32_t column) {
    dys[i] = loadWords<kNormRun>(x.dy, first + column);
    xs[i] = loadWords<kNormRun>(x.x, first + column);
    if constexpr (kAhead && kAdds) residuals[i] = residualOf(column);
  });
  if constexpr (kAhead)
    Share::forRuns(x.width, [&](int i, int32_t column) { weights[i] = weightOf(column); });
  const float mean = centered ? load<float>(x.mean, row) : 0.0f, rstd = load<float>(x.rstd, row);
  /// visit(index of a run, its first column, dy times the weight, x as it was normalized)
  const auto forAll = [&](const auto& visit) {
    Share::forRuns(x.width, [&](int i, int32_t column) {
      float slope[kNormRun], normal[kNormRun], weight[kNormRun];
      widenWords(dys[i], x.dy.format, slope);
      widenWords(xs[i], x.x.format, normal);
      widenWords(kAhead ? weights[kAhead ? i : 0] : weightOf(column), x.weight.format, weight);
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) {
        slope[k] *= weight[k];
        normal[k] = (normal[k] - mean) * rstd;
      }
      visit(i, column, slope, normal);
    });
  };

  float sums[2] = {};  // of products, and of slopes
  forAll([&](int, int32_t, const float(&slope)[kNormRun], const float(&normal)[kNormRun]) {
#pragma unroll
    for (int k = 0; k < kNormRun; ++k) {
      sums[0] += slope[k] * normal[k];
      sums[1] += slope[k];
    }
  });
  Share::template join<0>(sums);
  const float along = sums[0] / float(x.width), level = centered ? sums[1] / float(x.width) : 0.0f;

  forAll([&](int i, int32_t column, const float(&slope)[kNormRun], const float(&normal)[kNormRun]) {
    float dx[kNormRun];
#pragma unroll
    for (int k = 0; k < kNormRun; ++k) dx[k] = (slope[k] - level - normal[k] * along) * rstd;
    if constexpr (kAdds) {
      float residual[kNormRun];
      widenWords(kAhead ? residuals[kAhead ? i : 0] : residualOf(column), x.residual.format,
                 residual);
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) dx[k] += residual[k];
    }
    storeRun(x.dx, first + column, dx);
  });
}

}  // namespace tutti::parallel::cuda
