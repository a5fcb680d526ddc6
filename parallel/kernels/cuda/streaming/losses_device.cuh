#pragma once

// The loss, over a vocabulary or a part of one. A block has a row. Of its logits, in words of 16
// bytes, each thread has several runs under way, and between them
//   statistics    the largest of its logits so far, and the sum of their exponentials relative to
//                 it, which is scaled where others are larger (Milakov and Gimelshein, "Online
//                 normalizer calculation for softmax"); a tree joins those of the block
//   slopes        nothing: a run is stored where it was loaded from
// A row may begin anywhere (50257 columns): what lies before its first run, and behind its last,
// are some threads' single elements. Runs are of 8 elements in float32, too, so that statistics are
// summed in one order whatever the type.
//
// Bound: the memory's bandwidth; bytes of a logit, of which the type has b:
//   statistics      read b
//   slopes          read b, write b; of a row that does not count write b
// Of 16 bits the second bound is near: of exponentials, a dozen instructions each. One pass for
// both would have to keep rows of some 100 KB, on all ranks, until these have exchanged statistics.
// Slopes begin with the rows that statistics ended with: the second-level cache has these still.

#include "parallel/kernels/cuda/loss_device.cuh"
#include "parallel/kernels/cuda/streaming/arguments.h"
#include "parallel/kernels/cuda/streaming/runs_device.cuh"

namespace tutti::parallel::cuda {

/// Of a thread, under way at once.
inline constexpr int kLossRuns = 4;

/// A row's runs, which begin at a multiple of kLossRun elements of the memory, and its edges: up to
/// kLossRun - 1 elements on either side of these.
struct CutRow {
  int64_t first;
  int32_t width, before, runs, edges;
  TUTTI_DEVICE CutRow(int64_t row, int32_t columns) : first(row * columns), width(columns) {
    const int32_t gap = int32_t(-first & (kLossRun - 1));
    before = gap < width ? gap : width;
    runs = (width - before) / kLossRun;
    edges = width - runs * kLossRun;
  }
  TUTTI_DEVICE int32_t columnOfRun(int32_t run) const { return before + run * kLossRun; }
  TUTTI_DEVICE int32_t columnOfEdge(int32_t i) const {
    return i < before ? i : i + runs * kLossRun;
  }
  /// Calls visit(column) in the threads that have an edge.
  template <class Visit>
  TUTTI_DEVICE void forEdge(const Visit& visit) const {
    if (int32_t(threadIdx.x) < edges) visit(columnOfEdge(int32_t(threadIdx.x)));
  }
  /// Calls visit(first run) for this thread's batches; the others of a batch follow by the number
  /// of threads, as far as there are any.
  template <class Visit>
  TUTTI_DEVICE void forBatches(const Visit& visit) const {
    const auto threads = int32_t(blockDim.x);
    for (int32_t run = int32_t(threadIdx.x); run < runs; run += kLossRuns * threads) visit(run);
  }
};

using LossRun = float[kLossRun];
using LossBatch = Words<kLossRun>[kLossRuns];

/// Minus infinity, which adds nothing to a sum of exponentials.
template <Format kFormat>
TUTTI_DEVICE Words<kLossRun> noLogits() {
  const uint32_t bits = kFormat == Format::Float32    ? 0xff800000u
                        : kFormat == Format::BFloat16 ? 0xff80ff80u
                                                      : 0xfc00fc00u;
  const uint4 word = make_uint4(bits, bits, bits, bits);
  return {{word, word}};
}

template <Format kFormat>
TUTTI_DEVICE void loadBatch(const void* logits, const CutRow& row, int32_t run, LossBatch& batch) {
  const Elements x{const_cast<void*>(logits), kFormat};
#pragma unroll
  for (int i = 0; i < kLossRuns; ++i, run += int32_t(blockDim.x))
    batch[i] = run < row.runs ? loadWords<kLossRun>(x, row.first + row.columnOfRun(run))
                              : noLogits<kFormat>();
}

/// The softmax of what a thread has seen of a row. Logits that are NaN make the sum NaN, and are
/// not the largest.
struct RunningSoftmax {
  float largest = lowestLogit(0.0f), sum = 0;

  TUTTI_DEVICE float sumTo(float other) const { return sum * exponential(largest - other); }
  TUTTI_DEVICE void raise(float other) {
    const float raised = Largest::join(largest, other);
    sum = sumTo(raised), largest = raised;
  }
  TUTTI_DEVICE void add(float logit) { sum += exponential(logit - largest); }

  template <Format kFormat>
  TUTTI_DEVICE void add(const LossBatch& batch) {
    float top = largest;
    forLogits<kFormat>(batch, [&](float logit) { top = Largest::join(top, logit); });
    raise(top);
    forLogits<kFormat>(batch, [&](float logit) { add(logit); });
  }

 private:
  template <Format kFormat, class Visit>
  static TUTTI_DEVICE void forLogits(const LossBatch& batch, const Visit& visit) {
#pragma unroll
    for (int i = 0; i < kLossRuns; ++i) {
      LossRun logits;
      widenWords(batch[i], kFormat, logits);
#pragma unroll
      for (int k = 0; k < kLossRun; ++k) visit(logits[k]);
    }
  }
};

template <Format kFormat>
__global__ void __launch_bounds__(kThreads)
    statisticsOfRows(const __grid_constant__ LogitStatistics x) {
  const CutRow row(blockIdx.x, x.width);
  RunningSoftmax own;
  row.forEdge([&](int32_t column) {
    const float logit = load<float>(x.logits, row.first + column);
    own.raise(logit);
    own.add(logit);
  });
  row.forBatches([&](int32_t run) {
    LossBatch batch;
    loadBatch<kFormat>(x.logits.data, row, run, batch);
    own.add<kFormat>(batch);
  });
  const float largest = joinBlock<Largest>(own.largest);
  const float sum = joinBlock<Sum>(own.sumTo(largest));
  if (threadIdx.x == 0) storeStatistics<float>(x, blockIdx.x, largest, sum);
}

/// In the place of logits. Visit: what becomes of run `i` of a batch.
template <Format kFormat, class Visit>
TUTTI_DEVICE void storeBatch(const CrossEntropy& x, const CutRow& row, int32_t run,
                             const Visit& visit) {
#pragma unroll
  for (int i = 0; i < kLossRuns; ++i, run += int32_t(blockDim.x)) {
    if (run >= row.runs) break;
    LossRun slopes;
    visit(i, row.columnOfRun(run), slopes);
    storeRun(Elements{x.logits.data, kFormat}, row.first + row.columnOfRun(run), slopes);
  }
}

template <Format kFormat>
TUTTI_DEVICE void storeZeros(const CrossEntropy& x, const CutRow& row) {
  row.forEdge([&](int32_t column) { store<float>(x.logits, row.first + column, 0.0f); });
  row.forBatches([&](int32_t run) {
    storeBatch<kFormat>(x, row, run, [](int, int32_t, LossRun& slopes) {
#pragma unroll
      for (int k = 0; k < kLossRun; ++k) slopes[k] = 0;
    });
  });
}

/// With the gradient.
template <Format kFormat>
__global__ void __launch_bounds__(kThreads) slopesOfRows(const __grid_constant__ CrossEntropy x) {
  TUTTI_SHARED(JoinedStatistics, shared, );
  const int64_t number = int64_t(x.rows) - 1 - blockIdx.x;
  const CutRow row(number, x.width);
  if (threadIdx.x == 0) shared = storeLoss<float>(x, number);
  __syncthreads();
  if (x.labels[number] < 0) return storeZeros<kFormat>(x, row);
  const int32_t label = rowIn(x.part, x.labels[number]);
  const LogitSlopes<float> slopes(shared, x.scale);
  row.forEdge([&](int32_t column) {
    const float slope = slopes.of(load<float>(x.logits, row.first + column));
    store<float>(x.logits, row.first + column, column == label ? slope - slopes.scale : slope);
  });
  row.forBatches([&](int32_t run) {
    LossBatch batch;
    loadBatch<kFormat>(x.logits.data, row, run, batch);
    storeBatch<kFormat>(x, row, run, [&](int i, int32_t column, LossRun& values) {
      widenWords(batch[i], kFormat, values);
#pragma unroll
      for (int k = 0; k < kLossRun; ++k) {
        values[k] = slopes.of(values[k]);
        if (column + k == label) values[k] -= slopes.scale;
      }
    });
  });
}

/// Without it: a thread has a row.
__global__ inline void lossesOfRows(const __grid_constant__ CrossEntropy x) {
  const int64_t row = firstElement();
  if (row < x.rows) storeLoss<float>(x, row);
}

}  // namespace tutti::parallel::cuda
