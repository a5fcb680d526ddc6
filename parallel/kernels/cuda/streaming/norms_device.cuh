#pragma once

// Norms of rows that stay in registers: a row is read once, in words of 16 bytes, by a warp where
// it is narrow and by a block where it is not. What is summed of it is summed by each thread in the
// order of its columns, and joined by a tree. Runs are of 8 elements in float32, too, so that the
// order is the same whatever the types: a result of 16 bits is that of float32, rounded.
//
// Bound: the memory's bandwidth; bytes of an element, of which the type has b:
//   norm            read b, write b; of a sum with a residual, which is kept, read 2 b, write 2 b
//   normBackward    read 2 b, with a residual 3 b, write b
// The weight and the bias come from the first cache and the second; a row's mean and rstd are one
// number for all of its elements.

#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/streaming/arguments.h"
#include "parallel/kernels/cuda/streaming/runs_device.cuh"

namespace tutti::parallel::cuda {

/// What a thread has of a row that so many threads share: kRuns runs, those beyond the width left
/// out. A block has kThreadsOfBlock threads: as many rows of a warp each, or one row.
template <int kThreadsOfRow, int kRuns>
struct RowShare {
  static constexpr int kThreadsOfBlock = kThreadsOfRow == 32 ? kRowThreads : kThreadsOfRow;
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

  /// All threads of the row get it.
  static TUTTI_DEVICE float join(float sum) {
    if constexpr (kThreadsOfRow == 32)
      return joinWarp<Sum>(sum);
    else
      return joinBlock<Sum>(sum);
  }
};

TUTTI_DEVICE void loadRun(const Elements& x, int64_t at, float (&values)[kNormRun]) {
  widenWords(loadWords<kNormRun>(x, at), x.format, values);
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
template <int kThreadsOfRow, int kRuns, bool kAdds>
__global__ void normOfRows(const __grid_constant__ Norm x) {
  using Share = RowShare<kThreadsOfRow, kRuns>;
  const int32_t row = Share::row();
  if (row >= x.rows) return;  // a whole warp
  const int64_t first = int64_t(row) * x.width;
  const bool centered = x.mean.data != nullptr;
  Words<kNormRun> words[kRuns] = {}, residuals[kAdds ? kRuns : 1] = {};
  Share::forRuns(x.width, [&](int i, int32_t column) {
    words[i] = loadWords<kNormRun>(x.x, first + column);
    if constexpr (kAdds) residuals[i] = loadWords<kNormRun>(x.residual, first + column);
  });
  if constexpr (kAdds)
    Share::forRuns(x.width, [&](int i, int32_t column) {
      words[i] = sumOf(words[i], x.x.format, residuals[i], x.residual.format);
      storeWords(x.x, first + column, words[i]);
    });

  float mean = 0;
  if (centered) {
    float sum = 0;
    Share::forRuns(x.width, [&](int i, int32_t) {
      float in[kNormRun];
      widenWords(words[i], x.x.format, in);
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) sum += in[k];
    });
    mean = Share::join(sum) / float(x.width);
  }
  float squares = 0;
  Share::forRuns(x.width, [&](int i, int32_t) {
    float in[kNormRun];
    widenWords(words[i], x.x.format, in);
#pragma unroll
    for (int k = 0; k < kNormRun; ++k) squares += (in[k] - mean) * (in[k] - mean);
  });
  const float variance = Share::join(squares) / float(x.width);
  const float rstd = 1.0f / squareRoot(variance + float(x.epsilon));

  Share::forRuns(x.width, [&](int i, int32_t column) {
    float in[kNormRun], weight[kNormRun];
    widenWords(words[i], x.x.format, in);
    loadRun(x.weight, column, weight);
#pragma unroll
    for (int k = 0; k < kNormRun; ++k) in[k] = (in[k] - mean) * rstd * weight[k];
    if (centered) {
      float bias[kNormRun];
      loadRun(x.bias, column, bias);
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) in[k] += bias[k];
    }
    storeRun(x.y, first + column, in);
  });
  if (Share::thread() != 0) return;
  if (centered) store<float>(x.mean, row, mean);
  store<float>(x.rstd, row, rstd);
}

/// dx may be dy or the residual: a run is written by the thread that has read it.
template <int kThreadsOfRow, int kRuns>
__global__ void normBackwardOfRows(const __grid_constant__ NormBackward x) {
  using Share = RowShare<kThreadsOfRow, kRuns>;
  const int32_t row = Share::row();
  if (row >= x.rows) return;  // a whole warp
  const int64_t first = int64_t(row) * x.width;
  const bool centered = x.mean.data != nullptr;
  Words<kNormRun> dys[kRuns] = {}, xs[kRuns] = {};
  Share::forRuns(x.width, [&](int i, int32_t column) {
    dys[i] = loadWords<kNormRun>(x.dy, first + column);
    xs[i] = loadWords<kNormRun>(x.x, first + column);
  });
  const float mean = centered ? load<float>(x.mean, row) : 0.0f, rstd = load<float>(x.rstd, row);
  /// visit(first column, dy times the weight, x as it was normalized)
  const auto forAll = [&](const auto& visit) {
    Share::forRuns(x.width, [&](int i, int32_t column) {
      float slope[kNormRun], normal[kNormRun], weight[kNormRun];
      widenWords(dys[i], x.dy.format, slope);
      widenWords(xs[i], x.x.format, normal);
      loadRun(x.weight, column, weight);
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) {
        slope[k] *= weight[k];
        normal[k] = (normal[k] - mean) * rstd;
      }
      visit(column, slope, normal);
    });
  };

  float slopes = 0, products = 0;
  forAll([&](int32_t, const float(&slope)[kNormRun], const float(&normal)[kNormRun]) {
#pragma unroll
    for (int k = 0; k < kNormRun; ++k) {
      slopes += slope[k];
      products += slope[k] * normal[k];
    }
  });
  const float along = Share::join(products) / float(x.width);
  const float level = centered ? Share::join(slopes) / float(x.width) : 0.0f;

  forAll([&](int32_t column, const float(&slope)[kNormRun], const float(&normal)[kNormRun]) {
    float dx[kNormRun];
#pragma unroll
    for (int k = 0; k < kNormRun; ++k) dx[k] = (slope[k] - level - normal[k] * along) * rstd;
    if (x.residual.data != nullptr) {
      float residual[kNormRun];
      loadRun(x.residual, first + column, residual);
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) dx[k] += residual[k];
    }
    storeRun(x.dx, first + column, dx);
  });
}

}  // namespace tutti::parallel::cuda
