#pragma once

// Causal attention, a warp for each row of each head: of queries in forward and for dQ, of keys for
// dK and dV. It takes the rows on the other side 32 at a time, and each lane computes the score of
// one of them; then all lanes add up these rows, weighted, each in its columns of the head.
//
//   forward    p = exp(q k / sqrt(d) - the largest so far); out = sum of p v / sum of p
//   backward   p = exp(q k / sqrt(d) - lse); ds = p (dO v - dO out) / sqrt(d);
//              dQ = sum of ds k; dK = sum of ds q, dV = sum of p dO, over heads and queries
//
// The sums of forward are scaled down when a larger score comes ("FlashAttention", Dao et al.). A
// lane has kPerLane columns; of wider heads several warps have a slice each, which compute the same
// scores. So a thread's state does not depend on the head's width.
//
// Bound: loads of keys and values from the caches, each for one query alone.

#include "parallel/kernels/cuda/attention_reach_device.cuh"
#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/cuda/merged_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kPerLane = 4;
inline constexpr int kSliceWidth = 32 * kPerLane;

/// One row of a head.
struct HeadRow {
  const Elements& elements;
  int64_t first;
};
TUTTI_DEVICE HeadRow rowOf(const HeadRows& x, const AttentionSizes& sizes, int32_t batch,
                           int32_t head, int32_t row) {
  return {x.elements, batch * x.batchStride + row * x.rowStride + int64_t(head) * sizes.headWidth};
}

template <class T>
TUTTI_DEVICE T product(const HeadRow& a, const HeadRow& b, int32_t width) {
  T sum = 0;
  for (int32_t i = 0; i < width; ++i)
    sum += load<T>(a.elements, a.first + i) * load<T>(b.elements, b.first + i);
  return sum;
}

/// What a warp works on; `row` is beyond the last where there is nothing left for it.
struct WarpTask {
  int32_t batch, head, row, slice;
};
TUTTI_DEVICE int32_t slicesOf(const AttentionSizes& sizes) {
  return (sizes.headWidth + kSliceWidth - 1) / kSliceWidth;
}
TUTTI_DEVICE WarpTask taskOf(int32_t heads, int32_t rows, int32_t slices) {
  int32_t i = int32_t((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  WarpTask task;
  task.slice = i % slices;
  i /= slices;
  task.row = i % rows;
  i /= rows;
  task.head = i % heads;
  task.batch = i / heads;
  return task;
}

/// The columns of a lane, and a sum for each.
template <class T>
class LaneColumns {
 public:
  TUTTI_DEVICE LaneColumns(const AttentionSizes& sizes, int32_t slice)
      : first_(slice * kSliceWidth + laneOf()), width_(sizes.headWidth) {}
  TUTTI_DEVICE void scale(T by) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) sums_[i] *= by;
  }
  TUTTI_DEVICE void add(T weight, const HeadRow& row) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (first_ + 32 * i < width_)
        sums_[i] += weight * load<T>(row.elements, row.first + first_ + 32 * i);
  }
  /// `adds`: to what is there.
  TUTTI_DEVICE void write(const HeadRow& row, bool adds) const {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (first_ + 32 * i >= width_) continue;
      const int64_t at = row.first + first_ + 32 * i;
      const T before = adds ? load<T>(row.elements, at) : T(0);
      store<T>(row.elements, at, before + sums_[i]);
    }
  }

 private:
  T sums_[kPerLane] = {};
  const int32_t first_, width_;
};

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    attention(const __grid_constant__ AttentionForward x) {
  const AttentionSizes& sizes = x.sizes;
  const WarpTask task = taskOf(sizes.heads, sizes.queries, slicesOf(sizes));
  if (task.batch >= sizes.batch) return;
  const int32_t kvHead = task.head / (sizes.heads / sizes.kvHeads);
  const HeadRow query = rowOf(x.query, sizes, task.batch, task.head, task.row);
  const T scale = T(sizes.scale);
  LaneColumns<T> columns(sizes, task.slice);
  T largest = minusInfinity<T>(), sum = 0;
  const RowRange seen = keysSeen(sizes, task.batch, task.row);
  for (int32_t first = seen.from; first < seen.to; first += 32) {
    const int32_t key = first + laneOf();
    T score = minusInfinity<T>();
    if (key < seen.to)
      score =
          scale * product<T>(query, rowOf(x.key, sizes, task.batch, kvHead, key), sizes.headWidth);
    const T more = Largest::join(largest, joinWarp<Largest>(score));
    const T keep = largest == more ? T(1) : exponential(largest - more);
    const T weight = key < seen.to ? exponential(score - more) : T(0);
    sum = sum * keep + joinWarp<Sum>(weight);
    largest = more;
    columns.scale(keep);
    for (int32_t i = 0; i < min(seen.to - first, 32); ++i)
      columns.add(__shfl_sync(kAllLanes, weight, i),
                  rowOf(x.value, sizes, task.batch, kvHead, first + i));
  }
  columns.scale(seen.from == seen.to ? T(0) : T(1) / sum);
  columns.write(rowOf(x.out, sizes, task.batch, task.head, task.row), false);
  if (task.slice == 0 && laneOf() == 0)
    store<T>(x.logSumExp.elements, placeOf(x.logSumExp, task.batch, task.head, task.row),
             seen.from == seen.to ? minusInfinity<T>() : largest + logarithm(sum));
}

/// dots = dOut * out, of each query.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    attentionDots(const __grid_constant__ AttentionDots x) {
  const WarpTask task = taskOf(x.sizes.heads, x.sizes.queries, 1);
  if (task.batch >= x.sizes.batch) return;
  const HeadRow dOut = rowOf(x.dOut, x.sizes, task.batch, task.head, task.row);
  const HeadRow out = rowOf(x.out, x.sizes, task.batch, task.head, task.row);
  T sum = 0;
  for (int32_t i = laneOf(); i < x.sizes.headWidth; i += 32)
    sum += load<T>(dOut.elements, dOut.first + i) * load<T>(out.elements, out.first + i);
  sum = joinWarp<Sum>(sum);
  if (laneOf() == 0)
    store<T>(x.dots.elements, placeOf(x.dots, task.batch, task.head, task.row), sum);
}

/// Of a query and a key that it sees: the probability, and the gradient of the score before it was
/// scaled. All zero elsewhere.
template <class T>
struct PairGradient {
  T probability = 0, dScore = 0;

  TUTTI_DEVICE PairGradient(const AttentionBackward& x, int32_t batch, int32_t head, int32_t query,
                            int32_t key, bool isSeen) {
    if (!isSeen) return;
    const AttentionSizes& sizes = x.sizes;
    const int32_t kvHead = head / (sizes.heads / sizes.kvHeads);
    const T scale = T(sizes.scale);
    const T score = product<T>(rowOf(x.query, sizes, batch, head, query),
                               rowOf(x.key, sizes, batch, kvHead, key), sizes.headWidth);
    const T dProbability = product<T>(rowOf(x.dOut, sizes, batch, head, query),
                                      rowOf(x.value, sizes, batch, kvHead, key), sizes.headWidth);
    probability = exponential(
        score * scale - load<T>(x.logSumExp.elements, placeOf(x.logSumExp, batch, head, query)));
    const T dot = load<T>(x.dots.elements, placeOf(x.dots, batch, head, query));
    dScore = probability * (dProbability - dot) * scale;
  }
};

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    attentionQueryGradient(const __grid_constant__ AttentionBackward x) {
  const AttentionSizes& sizes = x.sizes;
  const WarpTask task = taskOf(sizes.heads, sizes.queries, slicesOf(sizes));
  if (task.batch >= sizes.batch) return;
  const int32_t kvHead = task.head / (sizes.heads / sizes.kvHeads);
  LaneColumns<T> columns(sizes, task.slice);
  const RowRange seen = keysSeen(sizes, task.batch, task.row);
  for (int32_t first = seen.from; first < seen.to; first += 32) {
    const int32_t key = first + laneOf();
    const PairGradient<T> pair(x, task.batch, task.head, task.row, key, key < seen.to);
    for (int32_t i = 0; i < min(seen.to - first, 32); ++i)
      columns.add(__shfl_sync(kAllLanes, pair.dScore, i),
                  rowOf(x.key, sizes, task.batch, kvHead, first + i));
  }
  columns.write(rowOf(x.dQuery, sizes, task.batch, task.head, task.row), x.adds != 0);
}

/// Over the heads that a key serves, and for each over the queries that see it, in their order.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    attentionKeyGradient(const __grid_constant__ AttentionBackward x) {
  const AttentionSizes& sizes = x.sizes;
  const WarpTask task = taskOf(sizes.kvHeads, sizes.keys, slicesOf(sizes));
  if (task.batch >= sizes.batch) return;
  const int32_t served = sizes.heads / sizes.kvHeads;
  LaneColumns<T> ofKey(sizes, task.slice), ofValue(sizes, task.slice);
  const RowRange seeing = queriesSeeing(sizes, task.batch, task.row);
  for (int32_t head = task.head * served; head < (task.head + 1) * served; ++head)
    for (int32_t first = seeing.from; first < seeing.to; first += 32) {
      const int32_t query = first + laneOf();
      const PairGradient<T> pair(x, task.batch, head, query, task.row, query < seeing.to);
      for (int32_t i = 0; i < min(seeing.to - first, 32); ++i) {
        ofKey.add(__shfl_sync(kAllLanes, pair.dScore, i),
                  rowOf(x.query, sizes, task.batch, head, first + i));
        ofValue.add(__shfl_sync(kAllLanes, pair.probability, i),
                    rowOf(x.dOut, sizes, task.batch, head, first + i));
      }
    }
  ofKey.write(rowOf(x.dKey, sizes, task.batch, task.head, task.row), x.adds != 0);
  ofValue.write(rowOf(x.dValue, sizes, task.batch, task.head, task.row), x.adds != 0);
}

/// out = (out exp(logSumExp) + part exp(partLogSumExp)) / (the sum of these weights).
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    attentionMerge(const __grid_constant__ AttentionMerge x) {
  const AttentionSizes& sizes = x.sizes;
  const WarpTask task = taskOf(sizes.heads, sizes.queries, 1);
  if (task.batch >= sizes.batch) return;
  const int64_t own = placeOf(x.logSumExp, task.batch, task.head, task.row);
  const Merged<T> merged(
      load<T>(x.logSumExp.elements, own),
      load<T>(x.partLogSumExp.elements, placeOf(x.partLogSumExp, task.batch, task.head, task.row)));
  if (!merged.seesKeys) return;
  const HeadRow out = rowOf(x.out, sizes, task.batch, task.head, task.row);
  const HeadRow part = rowOf(x.part, sizes, task.batch, task.head, task.row);
  for (int32_t i = laneOf(); i < sizes.headWidth; i += 32)
    store<T>(out.elements, out.first + i,
             times(load<T>(out.elements, out.first + i), merged.keep) +
                 times(load<T>(part.elements, part.first + i), merged.take));
  __syncwarp();  // all lanes have read it
  if (laneOf() == 0) store<T>(x.logSumExp.elements, own, merged.logSumExp);
}

}  // namespace tutti::parallel::cuda
