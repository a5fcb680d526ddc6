#pragma once

// What attention does with a row of a head besides attention: attentionMerge, and the products of
// dOut and out that its backward begins with. Some lanes of a warp have a row, a run each, or two
// where they merge, but of wide heads: one of 64 columns of 16 bits has 8 of them, or 4.
//
// Bound: the memory's bandwidth; bytes of an element, of which operands have b:
//   attentionMerge    read b of the part and b of the result, write b; a row has besides three
//                     numbers, and an exponential and a logarithm, which each of its lanes computes
//                     while it waits for its run
//   attentionDots     read 2 b; a row has one number
// Heads of a row follow one another, as in memory; a row's numbers, which lie head by head, are in
// the second-level cache until the next rows have theirs beside them.

#include "parallel/kernels/cuda/attention_reach_device.cuh"
#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/merged_device.cuh"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/runs_device.cuh"

namespace tutti::parallel::cuda {

/// The arguments, and what their heads and rows are counted by.
template <class Arguments>
struct HeadRuns {
  Arguments x;
  Divider heads, queries;
};

/// Rows of heads as they lie in memory, kLanes lanes for each. Lanes beyond the last have it, too,
/// and are not there.
template <int kLanes>
struct HeadLanes {
  int32_t batch, head, row;
  bool isHere;

  template <class Arguments>
  TUTTI_DEVICE explicit HeadLanes(const HeadRuns<Arguments>& of) {
    const AttentionSizes& sizes = of.x.sizes;
    const int32_t all = sizes.batch * sizes.heads * sizes.queries;  // below 2^30
    const int64_t own = firstElement() / kLanes;
    isHere = own < all;
    const auto i = uint32_t(isHere ? int32_t(own) : all - 1);
    const uint32_t rows = quotientOf(of.heads, i), before = quotientOf(of.queries, rows);
    head = int32_t(i - rows * of.heads.divisor);
    row = int32_t(rows - before * of.queries.divisor);
    batch = int32_t(before);
  }
  TUTTI_DEVICE int64_t firstOf(const HeadRows& x, const AttentionSizes& sizes) const {
    return batch * x.batchStride + row * x.rowStride + int64_t(head) * sizes.headWidth;
  }
  static TUTTI_DEVICE int32_t lane() { return laneOf() % kLanes; }
};

/// What a lane merges: runs that are kLanes apart, of one row.
inline constexpr int kMergedRuns = 2;
template <int kRun, int kLanes>
struct MergedRuns {
  RunWords<kRun> out[kMergedRuns] = {}, part[kMergedRuns] = {};

  template <class Visit>
  static TUTTI_DEVICE void forRuns(int32_t first, int32_t width, const Visit& visit) {
#pragma unroll
    for (int i = 0; i < kMergedRuns; ++i)
      if (const int32_t column = first + i * kLanes * kRun; column < width) visit(i, column);
  }
  TUTTI_DEVICE void load(const Elements& outs, int64_t ofOut, const Elements& parts, int64_t ofPart,
                         int32_t first, int32_t width) {
    forRuns(first, width, [&](int i, int32_t column) {
      out[i] = loadWords<kRun>(outs, ofOut + column);
      part[i] = loadWords<kRun>(parts, ofPart + column);
    });
  }
  TUTTI_DEVICE void merge(const Merged<float>& merged, const Elements& outs, int64_t ofOut,
                          ElementFormat ofParts, int32_t first, int32_t width) const {
    forRuns(first, width, [&](int i, int32_t column) {
      float kept[kRun], taken[kRun];
      widenWords(out[i], outs.format, kept);
      widenWords(part[i], ofParts, taken);
#pragma unroll
      for (int k = 0; k < kRun; ++k)
        kept[k] = times(kept[k], merged.keep) + times(taken[k], merged.take);
      storeRun(outs, ofOut + column, kept);
    });
  }
};

template <int kRun, int kLanes, int kKnown>
__global__ void __launch_bounds__(kRowThreads)
    mergeRuns(const __grid_constant__ HeadRuns<AttentionMerge> runs) {
  const AttentionMerge& x = runs.x;
  const HeadLanes<kLanes> own(runs);
  const Elements outs = known<kKnown>(x.out.elements), parts = known<kKnown>(x.part.elements);
  const int64_t out = own.firstOf(x.out, x.sizes), part = own.firstOf(x.part, x.sizes);
  const int32_t width = x.sizes.headWidth, first = own.lane() * kRun;
  MergedRuns<kRun, kLanes> held;
  if (own.isHere) held.load(outs, out, parts, part, first, width);
  const int64_t place = placeOf(x.logSumExp, own.batch, own.head, own.row);
  // Whoever is not there may not read it: the row's own warp writes it.
  const Merged<float> merged(
      own.isHere ? load<float>(x.logSumExp.elements, place) : 0,
      own.isHere ? load<float>(x.partLogSumExp.elements,
                               placeOf(x.partLogSumExp, own.batch, own.head, own.row))
                 : 0);
  const bool isMerged = own.isHere && merged.seesKeys;
#pragma unroll 1
  for (int32_t column = first; isMerged && column < width; column += kMergedRuns * kLanes * kRun) {
    if (column != first) held.load(outs, out, parts, part, column, width);
    held.merge(merged, outs, out, parts.format, column, width);
  }
  __syncwarp();  // all lanes have read it
  if (isMerged && own.lane() == 0) store<float>(x.logSumExp.elements, place, merged.logSumExp);
}

/// Each lane adds up its runs in their order, and a tree joins these sums.
template <int kRun, int kLanes, int kKnown>
__global__ void __launch_bounds__(kRowThreads)
    headDots(const __grid_constant__ HeadRuns<AttentionDots> runs) {
  const AttentionDots& x = runs.x;
  const HeadLanes<kLanes> own(runs);
  const Elements dOuts = known<kKnown>(x.dOut.elements), outs = known<kKnown>(x.out.elements);
  const int64_t dOut = own.firstOf(x.dOut, x.sizes), out = own.firstOf(x.out, x.sizes);
  float sum = 0;
#pragma unroll 1
  for (int32_t column = own.lane() * kRun; column < x.sizes.headWidth; column += kLanes * kRun) {
    const RunWords<kRun> words = loadWords<kRun>(dOuts, dOut + column),
                         others = loadWords<kRun>(outs, out + column);
    float a[kRun], b[kRun];
    widenWords(words, dOuts.format, a);
    widenWords(others, outs.format, b);
#pragma unroll
    for (int i = 0; i < kRun; ++i) sum += a[i] * b[i];
  }
#pragma unroll
  for (int bits = kLanes / 2; bits > 0; bits /= 2) sum += __shfl_xor_sync(kAllLanes, sum, bits);
  if (own.isHere && own.lane() == 0)
    store<float>(x.dots.elements, placeOf(x.dots, own.batch, own.head, own.row), sum);
}

}  // namespace tutti::parallel::cuda
