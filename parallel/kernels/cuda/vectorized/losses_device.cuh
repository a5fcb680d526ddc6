#pragma once

// The loss, over a vocabulary or a part of one. A block has a row. Of its logits, in words of 16
// bytes, each thread has kLossRuns runs under way at all times: before one is computed with, the
// one behind the others is loaded into its place. From run to run it keeps
//   statistics    the largest of its logits so far, and the sum of their exponentials relative to
//                 it, which is scaled where others are larger (Milakov and Gimelshein, "Online
//                 normalizer calculation for softmax"); a tree joins those of the block
//   slopes        nothing: a run is stored where it was loaded from
// The first runs are under way before anything is waited for: the row's label and edges, and for
// slopes the statistics that one thread joins.
//
// Rows may have gaps between them, which are neither read nor written: those of a model's logits
// begin at multiples of 16 bytes, so that behind the runs of 50257 columns there is one element.
// Others begin anywhere: what lies before a row's first run, and behind its last, are some threads'
// single elements. Runs are of 8 elements in float32, too, so that statistics are summed in one
// order whatever the type, statistics by themselves.
//
// Bound: the memory's bandwidth; bytes of a logit, of which the type has b:
//   statistics      read b
//   slopes          read b, write b; of a row that does not count write b
// Of 16 bits the second bound is near: of instructions. At 4 TB/s a multiprocessor of an H200 has
// 14 for a logit that is read, and twice as many for one that is written, too. Statistics take
// about 8, with ex2.approx, where expf() alone has as many; slopes about 14, with expf(), which are
// those of the reference kernel to the bit. Bytes under way: 4 blocks of 256 threads with 64 bytes
// each are 64 KB of a multiprocessor, where 800 ns at 4.8 TB/s need 29 KB.
//
// Ranks that have a part each exchange statistics between the two, which no cache has the logits
// for; slopes begin with the rows that statistics ended with, some of which it has still. Of a
// vocabulary that is not cut both are one launch:
//   whole rows      read b, write b; without the gradient read b
// A block reads its row once for the statistics, and once more for the slopes, from the
// second-level cache: so few rows are under way at once, of many threads each, as it has room for.

#include "parallel/kernels/cuda/loss_device.cuh"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/runs_device.cuh"

namespace tutti::parallel::cuda {

/// Of a thread, under way at once.
inline constexpr int kLossRuns = 4;

/// A row's runs, which begin at a multiple of kLossRun elements of the memory, and its edges: up to
/// kLossRun - 1 elements on either side of these.
struct CutRow {
  int64_t first;
  int32_t width, before, runs, edges;
  TUTTI_DEVICE CutRow(int64_t row, int64_t stride, int32_t columns)
      : first(row * stride), width(columns) {
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
};

using LossRun = float[kLossRun];

/// A thread's runs of a row, every blockDim.x-th: the first kRuns are loaded when this is made.
template <ElementFormat kFormat, int kRuns = kLossRuns>
class RunsAhead {
 public:
  TUTTI_DEVICE RunsAhead(const Elements& logits, const CutRow& row)
      : logits_{logits.data, kFormat}, row_(row) {
    begin();
  }
  /// Once more, behind forRuns().
  TUTTI_DEVICE void begin() {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) load(i, int32_t(threadIdx.x) + i * int32_t(blockDim.x));
  }
  /// Calls visit(column, logits) for each run, once. Visit may store there.
  template <class Visit>
  TUTTI_DEVICE void forRuns(const Visit& visit) {
    const auto threads = int32_t(blockDim.x);
    for (int32_t run = int32_t(threadIdx.x); run < row_.runs;) {
#pragma unroll
      for (int i = 0; i < kRuns; ++i, run += threads) {
        if (run >= row_.runs) return;
        const RunWords<kLossRun> words = ahead_[i];
        load(i, run + kRuns * threads);
        LossRun logits;
        widenWords(words, kFormat, logits);
        visit(row_.columnOfRun(run), logits);
      }
    }
  }

 private:
  TUTTI_DEVICE void load(int i, int32_t run) {
    if (run < row_.runs)
      ahead_[i] = loadWords<kLossRun>(logits_, row_.first + row_.columnOfRun(run));
  }
  const Elements logits_;
  const CutRow row_;
  RunWords<kLossRun> ahead_[kRuns];
};

/// Exactly 1 of 0, 0 of minus infinity, NaN of NaN and of infinity less itself.
TUTTI_DEVICE float relativeExponential(float difference) {
  constexpr float kLog2OfE = 1.4426950408889634f;
  return ptx::exp2Approximate(difference * kLog2OfE);
}

/// The softmax of what a thread has seen of a row. Logits that are NaN make the sum NaN, and are
/// not the largest.
struct RunningSoftmax {
  float largest = lowestLogit(0.0f), sum = 0;

  TUTTI_DEVICE float sumTo(float other) const { return sum * relativeExponential(largest - other); }
  TUTTI_DEVICE void add(float logit) {
    const float top = fmaxf(largest, logit);
    sum = sumTo(top) + relativeExponential(logit - top), largest = top;
  }
  TUTTI_DEVICE void add(const LossRun& logits) {
    const float top = fmaxf(largest, joinRun(logits, [](float a, float b) { return fmaxf(a, b); }));
    LossRun parts;
#pragma unroll
    for (int k = 0; k < kLossRun; ++k) parts[k] = relativeExponential(logits[k] - top);
    sum = sumTo(top) + joinRun(parts, [](float a, float b) { return a + b; }), largest = top;
  }

 private:
  /// By a tree, whose steps wait for fewer others than those of a chain.
  template <class Join>
  static TUTTI_DEVICE float joinRun(const LossRun& run, const Join& join) {
    return join(join(join(run[0], run[1]), join(run[2], run[3])),
                join(join(run[4], run[5]), join(run[6], run[7])));
  }
};

/// Of a whole row, for all threads of its block.
template <class Runs>
TUTTI_DEVICE RunningSoftmax softmaxOf(const Elements& logits, const CutRow& row, Runs& runs) {
  RunningSoftmax own;
  row.forEdge([&](int32_t column) { own.add(load<float>(logits, row.first + column)); });
  runs.forRuns([&](int32_t, const LossRun& run) { own.add(run); });
  const float largest = joinBlock<Largest>(own.largest);
  return {largest, joinBlock<Sum>(own.sumTo(largest))};
}

template <ElementFormat kFormat>
__global__ void __launch_bounds__(kThreads, 4)
    statisticsOfRows(const __grid_constant__ LogitStatistics x) {
  const CutRow row(blockIdx.x, x.stride, x.width);
  RunsAhead<kFormat> runs(x.logits, row);
  const float chosen = threadIdx.x == 0 ? chosenLogit<float>(x, blockIdx.x) : 0;
  const RunningSoftmax all = softmaxOf(x.logits, row, runs);
  if (threadIdx.x == 0) storeStatistics<float>(x, blockIdx.x, all.largest, all.sum, chosen);
}

template <ElementFormat kFormat>
TUTTI_DEVICE void storeZeros(const Elements& logits, const CutRow& row) {
  row.forEdge([&](int32_t column) { store<float>(logits, row.first + column, 0.0f); });
  const LossRun none{};
  for (int32_t run = int32_t(threadIdx.x); run < row.runs; run += int32_t(blockDim.x))
    storeRun(Elements{logits.data, kFormat}, row.first + row.columnOfRun(run), none);
}

/// Of row `number`, which counts.
template <ElementFormat kFormat, class Runs>
TUTTI_DEVICE void storeSlopes(const CrossEntropy& x, int64_t number, const CutRow& row, Runs& runs,
                              const JoinedStatistics& joined) {
  const int32_t label = rowIn(x.part, x.labels[number]);
  const LogitSlopes<float> slopes(joined, x.scale);
  row.forEdge([&](int32_t column) {
    const float slope = slopes.of(load<float>(x.logits, row.first + column));
    store<float>(x.logits, row.first + column, column == label ? slope - slopes.scale : slope);
  });
  runs.forRuns([&](int32_t column, LossRun& values) {
#pragma unroll
    for (int k = 0; k < kLossRun; ++k) values[k] = slopes.of(values[k]);
    if (label >= column && label < column + kLossRun) {  // of one thread's runs one
#pragma unroll
      for (int k = 0; k < kLossRun; ++k)
        if (column + k == label) values[k] -= slopes.scale;
    }
    storeRun(Elements{x.logits.data, kFormat}, row.first + column, values);
  });
}

/// With the gradient.
template <ElementFormat kFormat>
__global__ void __launch_bounds__(kThreads, 4)
    slopesOfRows(const __grid_constant__ CrossEntropy x) {
  TUTTI_SHARED(JoinedStatistics, shared, );
  const int64_t number = int64_t(x.rows) - 1 - blockIdx.x;
  const CutRow row(number, x.stride, x.width);
  if (x.labels[number] < 0) {
    if (threadIdx.x == 0) storeLoss(x, number, ofNoLoss());
    return storeZeros<kFormat>(x.logits, row);
  }
  RunsAhead<kFormat> runs(x.logits, row);
  if (threadIdx.x == 0) {
    shared = joinedStatistics<float>(x, number);
    storeLoss(x, number, shared);
  }
  __syncthreads();
  storeSlopes<kFormat>(x, number, row, runs, shared);
}

/// Without it: a thread has a row.
__global__ inline void lossesOfRows(const __grid_constant__ CrossEntropy x) {
  const int64_t row = firstElement();
  if (row < x.rows)
    storeLoss(x, row, x.labels[row] < 0 ? ofNoLoss() : joinedStatistics<float>(x, row));
}

/// Of a whole vocabulary, without statistics that were made ahead; with the gradient or without.
template <ElementFormat kFormat, int kMostThreads>
__global__ void __launch_bounds__(kMostThreads, kThreadsOfLong / kMostThreads)
    lossesOfWholeRows(const __grid_constant__ CrossEntropy x) {
  TUTTI_SHARED(JoinedStatistics, shared, );
  const int64_t number = blockIdx.x;
  const CutRow row(number, x.stride, x.width);
  if (x.labels[number] < 0) {
    if (threadIdx.x == 0) storeLoss(x, number, ofNoLoss());
    if (x.gradient != 0) storeZeros<kFormat>(x.logits, row);
    return;
  }
  constexpr int kRuns = kFormat == ElementFormat::Float32 ? 2 : kLossRuns;  // as many bytes
  RunsAhead<kFormat, kRuns> runs(x.logits, row);
  const float chosen = threadIdx.x == 0 ? chosenLogit<float>(x, number) : 0;
  const RunningSoftmax all = softmaxOf(x.logits, row, runs);
  if (x.gradient != 0) runs.begin();
  if (threadIdx.x == 0) {
    shared = {all.largest, all.sum, chosen};
    storeLoss(x, number, shared);
  }
  if (x.gradient == 0) return;
  __syncthreads();
  storeSlopes<kFormat>(x, number, row, runs, shared);
}

}  // namespace tutti::parallel::cuda
