#pragma once

// Norms of rows that stay in registers: a row is read once, in words of 16 bytes, by a warp where
// it is narrow and by a block where it is not. What is summed of it is summed by each thread in the
// order of its columns, and joined by a tree. Runs are of 8 elements in float32, too, so that the
// order is the same whatever the types: a result of 16 bits is that of float32, rounded.
//
// Bound: the memory's bandwidth; bytes of an element, of which the type has b:
//   norm            read b, write b; of a sum with a residual, which is kept, read 2 b, write 2 b
//   normBackward    read 2 b, with a residual 3 b, write b; with sums for the weights' gradients
//                   besides, 4 bytes of each sum for a slice of kNormSliceRows rows or more
// The weight and the bias come from the first cache and the second, before a row's sums are joined,
// as all that a thread reads of a row: what it waits for it waits for once. A row's mean and rstd
// are one number for all of its elements.
//
// Of 16 bits the second bound is near: arithmetic, a dozen and a half instructions for an element.
// So kernels are compiled for operands that are all of one of these formats, besides those that
// look at each operand's. Of a wide row a block has one, and several blocks are on a processor at a
// time.
//
// Where sums are wanted a block has a slice of the rows. Each thread keeps those of its columns in
// registers, over the rows that it shares, one after the other. That leaves fewer threads to a
// processor, so the next row is on its way while one is computed, unless formats are looked at, for
// which there are not enough registers. Of narrow rows each warp has every fourth, and what the
// warps have is added in their order at the slice's end. A row's gradient has the same bits with
// sums and without: products to which nvcc might add in one kernel and not in the other are rounded
// by themselves.

#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/runs_device.cuh"

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
  /// for one such call of each kCall: nobody waits until all have read. In a loop two turns take
  /// turns: who is in the second has waited for all, who have read in the first.
  template <int kCall, int kTurns = 1, int kSums>
  static TUTTI_DEVICE void join(float (&sums)[kSums], int turn = 0) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = joinWarp<Sum>(sums[i]);
    if constexpr (kThreadsOfRow > 32) {
      constexpr int kWarps = kThreadsOfRow / 32;
      TUTTI_SHARED(float, ofWarps, [kTurns][kSums][kWarps]);
#pragma unroll
      for (int i = 0; i < kSums; ++i)
        if (laneOf() == 0) ofWarps[turn][i][threadIdx.x / 32] = sums[i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        sums[i] = ofWarps[turn][i][0];
#pragma unroll
        for (int warp = 1; warp < kWarps; ++warp) sums[i] += ofWarps[turn][i][warp];
      }
    }
  }
};

/// Of operands that are all of one format, when that is known.
template <int kKnown>
TUTTI_DEVICE NormForward known(const NormForward& x) {
  NormForward same = x;
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
TUTTI_DEVICE RunWords<kNormRun> sumOf(const RunWords<kNormRun>& x, ElementFormat formatOfX,
                                      const RunWords<kNormRun>& residual,
                                      ElementFormat formatOfResidual) {
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
    normOfRows(const __grid_constant__ NormForward given) {
  using Share = RowShare<kThreadsOfRow, kRuns>;
  const NormForward x = known<kKnown>(given);
  const int32_t row = Share::row();
  if (row >= x.rows) return;  // a whole warp
  const int64_t first = int64_t(row) * x.width;
  const bool centered = x.mean.data != nullptr;
  RunWords<kNormRun> words[kRuns] = {}, residuals[kAdds ? kRuns : 1] = {};
  RunWords<kNormRun> weights[kRuns] = {};
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

/// What a thread has of a row whose gradient it shares. dx may be dy or the residual: a run is
/// written by the thread that has read it. kAdds: there is a residual. kAhead: that and the weight
/// are loaded ahead; of any format runs take twice the registers, and the residual is read later,
/// the weight twice.
template <class Share, int kRuns, bool kAdds, bool kAhead>
struct BackwardRow {
  int64_t first;
  RunWords<kNormRun> dys[kRuns] = {}, xs[kRuns] = {}, residuals[kAhead && kAdds ? kRuns : 1] = {};
  float mean, rstd;

  /// kAll: the residual's, too, where it is loaded ahead.
  template <bool kAll>
  TUTTI_DEVICE void loadRuns(const NormBackward& x, int32_t row) {
    first = int64_t(row) * x.width;
    Share::forRuns(x.width, [&](int i, int32_t column) {
      dys[i] = loadWords<kNormRun>(x.dy, first + column);
      xs[i] = loadWords<kNormRun>(x.x, first + column);
      if constexpr (kAll && kAhead && kAdds) residuals[i] = residualOf(x, column);
    });
  }
  TUTTI_DEVICE void loadResiduals(const NormBackward& x) {
    if constexpr (kAhead && kAdds)
      Share::forRuns(x.width, [&](int i, int32_t column) { residuals[i] = residualOf(x, column); });
  }
  TUTTI_DEVICE void loadNumbers(const NormBackward& x, bool centered, int32_t row) {
    mean = centered ? load<float>(x.mean, row) : 0.0f, rstd = load<float>(x.rstd, row);
  }
  TUTTI_DEVICE RunWords<kNormRun> residualOf(const NormBackward& x, int32_t column) const {
    return loadWords<kNormRun>(x.residual, first + column);
  }

  /// visit(index of a run, its first column, dy, dy times the weight, x as it was normalized)
  template <class Weights, class Visit>
  TUTTI_DEVICE void forAll(const NormBackward& x, const Weights& weights,
                           const Visit& visit) const {
    Share::forRuns(x.width, [&](int i, int32_t column) {
      float dy[kNormRun], slope[kNormRun], normal[kNormRun], weight[kNormRun];
      widenWords(dys[i], x.dy.format, dy);
      widenWords(xs[i], x.x.format, normal);
      widenWords(weights(i, column), x.weight.format, weight);
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) {
        slope[k] = times(dy[k], weight[k]);
        normal[k] = (normal[k] - mean) * rstd;
      }
      visit(i, column, dy, slope, normal);
    });
  }

  /// Stores the gradient of a row whose products of slopes and x, and slopes, have these means.
  template <class Weights>
  TUTTI_DEVICE void store(const NormBackward& x, const Weights& weights, float along,
                          float level) const {
    using Run = const float(&)[kNormRun];
    forAll(x, weights, [&](int i, int32_t column, Run, Run slope, Run normal) {
      float dx[kNormRun];
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) dx[k] = times(slope[k] - level - normal[k] * along, rstd);
      if constexpr (kAdds) {
        float residual[kNormRun];
        widenWords(kAhead ? residuals[kAhead ? i : 0] : residualOf(x, column), x.residual.format,
                   residual);
#pragma unroll
        for (int k = 0; k < kNormRun; ++k) dx[k] += residual[k];
      }
      storeRun(x.dx, first + column, dx);
    });
  }
};

/// A thread's runs of the weight, loaded ahead or each time.
template <class Share, int kRuns, bool kAhead>
struct NormWeights {
  const Elements& weight;
  RunWords<kNormRun> words[kAhead ? kRuns : 1] = {};
  TUTTI_DEVICE void load(int32_t width) {
    if constexpr (kAhead)
      Share::forRuns(
          width, [&](int i, int32_t column) { words[i] = loadWords<kNormRun>(weight, column); });
  }
  TUTTI_DEVICE RunWords<kNormRun> operator()(int i, int32_t column) const {
    return kAhead ? words[kAhead ? i : 0] : loadWords<kNormRun>(weight, column);
  }
};

template <int kThreadsOfRow, int kRuns, bool kAdds, int kKnown>
__global__ void __launch_bounds__(RowShare<kThreadsOfRow, kRuns>::kThreadsOfBlock)
    normBackwardOfRows(const __grid_constant__ NormBackward given) {
  using Share = RowShare<kThreadsOfRow, kRuns>;
  using Run = const float(&)[kNormRun];
  constexpr bool kAhead = kKnown != kAnyFormat;
  const NormBackward x = known<kKnown>(given);
  const int32_t row = Share::row();
  if (row >= x.rows) return;  // a whole warp
  const bool centered = x.mean.data != nullptr;
  BackwardRow<Share, kRuns, kAdds, kAhead> of;
  NormWeights<Share, kRuns, kAhead> weights{x.weight};
  of.template loadRuns<true>(x, row);
  weights.load(x.width);
  of.loadNumbers(x, centered, row);

  float sums[2] = {};  // of products, and of slopes
  of.forAll(x, weights, [&](int, int32_t, Run, Run slope, Run normal) {
#pragma unroll
    for (int k = 0; k < kNormRun; ++k) {
      sums[0] += slope[k] * normal[k];
      sums[1] += slope[k];
    }
  });
  Share::template join<0>(sums);
  of.store(x, weights, sums[0] / float(x.width), centered ? sums[1] / float(x.width) : 0.0f);
}

/// A thread's part of a slice's sums: of dy times the normalized x; of dy, where kSums is 2.
template <int kThreadsOfRow, int kRuns, int kSums>
struct SliceSums {
  using Share = RowShare<kThreadsOfRow, kRuns>;
  float sums[kSums][kRuns][kNormRun] = {};

  /// All threads must call it. Of narrow rows what warps have is added in their order.
  TUTTI_DEVICE void store(const SlicedNormBackward& x, int32_t slice) const {
#pragma unroll
    for (int which = 0; which < kSums; ++which) {
      float* const to = x.sums + (int64_t(which) * x.slices.count + slice) * x.of.width;
      if constexpr (Share::kRowsOfBlock == 1)
        Share::forRuns(x.of.width, [&](int i, int32_t column) {
          storeRun({to, ElementFormat::Float32}, column, sums[which][i]);
        });
      else
        storeJoined(sums[which], x.of.width, to, which > 0);
    }
  }

 private:
  /// `again`: what was there before may still be read.
  static TUTTI_DEVICE void storeJoined(const float (&ofThread)[kRuns][kNormRun], int32_t width,
                                       float* to, bool again) {
    TUTTI_SHARED(float, ofWarps, [Share::kRowsOfBlock][kThreadsOfRow * kRuns * kNormRun]);
    if (again) __syncthreads();
    Share::forRuns(width, [&](int i, int32_t column) {
#pragma unroll
      for (int k = 0; k < kNormRun; ++k)
        ofWarps[threadIdx.x / kThreadsOfRow][column + k] = ofThread[i][k];
    });
    __syncthreads();
    for (int32_t column = int32_t(threadIdx.x); column < width; column += Share::kThreadsOfBlock) {
      float sum = ofWarps[0][column];
#pragma unroll
      for (int warp = 1; warp < Share::kRowsOfBlock; ++warp) sum += ofWarps[warp][column];
      to[column] = sum;
    }
  }
};

/// Of all rows of a slice. kSums: 2 of rows that have a mean, 1 of others.
template <int kThreadsOfRow, int kRuns, bool kAdds, int kSums, int kKnown>
__global__ void __launch_bounds__(RowShare<kThreadsOfRow, kRuns>::kThreadsOfBlock)
    normBackwardOfSlices(const __grid_constant__ SlicedNormBackward given) {
  using Share = RowShare<kThreadsOfRow, kRuns>;
  using Run = const float(&)[kNormRun];
  constexpr bool kAhead = kKnown != kAnyFormat, kCentered = kSums == 2;
  const NormBackward x = known<kKnown>(given.of);
  const int32_t slice = int32_t(blockIdx.x), firstRow = slice * given.slices.rows;
  const int32_t end = min(firstRow + given.slices.rows, x.rows);
  SliceSums<kThreadsOfRow, kRuns, kSums> kept;
  // Of the caches: nvcc would keep it in float32, and registers for that take a block from the
  // multiprocessor.
  const auto weights = [&](int, int32_t column) { return loadWords<kNormRun>(x.weight, column); };
  BackwardRow<Share, kRuns, kAdds, kAhead> of, next;
  const auto load = [&](auto& into, int32_t row) {
    if (row >= end) return;
    into.template loadRuns<false>(x, row);
    into.loadNumbers(x, kCentered, row);
  };
  int32_t row = firstRow + int32_t(threadIdx.x) / kThreadsOfRow;
  load(of, row);
  for (int turn = 0; row < end;
       turn ^= 1) {  // a whole warp; a whole block where there are barriers
    row += Share::kRowsOfBlock;
    of.loadResiduals(x);
    if constexpr (kAhead) load(next, row);
    float sums[kSums] = {};  // of products, and of slopes
    of.forAll(x, weights, [&](int i, int32_t, Run dy, Run slope, Run normal) {
#pragma unroll
      for (int k = 0; k < kNormRun; ++k) {
        sums[0] += slope[k] * normal[k];
        kept.sums[0][i][k] += dy[k] * normal[k];
        if constexpr (kCentered) {
          sums[1] += slope[k];
          kept.sums[1][i][k] += dy[k];
        }
      }
    });
    Share::template join<0, 2>(sums, turn);
    of.store(x, weights, sums[0] / float(x.width),
             kCentered ? sums[kSums - 1] / float(x.width) : 0.0f);
    if constexpr (kAhead)
      of = next;
    else
      load(of, row);
  }
  kept.store(given, slice);
}

}  // namespace tutti::parallel::cuda
