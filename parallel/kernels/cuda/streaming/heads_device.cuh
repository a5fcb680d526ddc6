#pragma once

// What attention does with a row of a head besides attention: attentionMerge, and the products of
// dOut and out that its backward begins with. Some lanes of a warp have a row, a run each, so that
// a head of 64 columns of 16 bits has 8 of them, and a warp four rows.
//
// Bound: the memory's bandwidth; bytes of an element, of which operands have b:
//   attentionMerge    read b of the part and b of the result, write b; a row has besides three
//                     numbers, and two exponentials and a logarithm in float64
//   attentionDots     read 2 b; a row has one number

#include "parallel/kernels/cuda/attention_reach_device.cuh"
#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/merged_device.cuh"
#include "parallel/kernels/cuda/streaming/arguments.h"
#include "parallel/kernels/cuda/streaming/runs_device.cuh"

namespace tutti::parallel::cuda {

/// Rows one behind the other, kLanes lanes for each, which have one run but of wide heads. Lanes
/// beyond the last have it, too, and are not there.
template <int kLanes>
struct HeadLanes {
  int32_t batch, head, row;
  bool isHere;

  TUTTI_DEVICE explicit HeadLanes(const AttentionSizes& sizes) {
    const int32_t all = sizes.batch * sizes.heads * sizes.queries;  // below 2^30
    const int64_t own = firstElement() / kLanes;
    isHere = own < all;
    const int32_t i = isHere ? int32_t(own) : all - 1;
    row = i % sizes.queries;
    head = i / sizes.queries % sizes.heads;
    batch = i / sizes.queries / sizes.heads;
  }
  TUTTI_DEVICE int64_t firstOf(const HeadRows& x, const AttentionSizes& sizes) const {
    return batch * x.batchStride + row * x.rowStride + int64_t(head) * sizes.headWidth;
  }
  static TUTTI_DEVICE int32_t lane() { return laneOf() % kLanes; }
};

template <int kRun, int kLanes>
__global__ void __launch_bounds__(kRowThreads) mergeRuns(const __grid_constant__ AttentionMerge x) {
  const HeadLanes<kLanes> own(x.sizes);
  const int64_t place = placeOf(x.logSumExp, own.batch, own.head, own.row);
  // Whoever is not there may not read it: the row's own warp writes it.
  const Merged<float> merged(
      own.isHere ? load<float>(x.logSumExp.elements, place) : 0,
      own.isHere ? load<float>(x.partLogSumExp.elements,
                               placeOf(x.partLogSumExp, own.batch, own.head, own.row))
                 : 0);
  const bool isMerged = own.isHere && merged.seesKeys;
  const int64_t out = own.firstOf(x.out, x.sizes), part = own.firstOf(x.part, x.sizes);
#pragma unroll 1
  for (int32_t column = own.lane() * kRun; isMerged && column < x.sizes.headWidth;
       column += kLanes * kRun) {
    const Words<kRun> words = loadWords<kRun>(x.out.elements, out + column),
                      more = loadWords<kRun>(x.part.elements, part + column);
    float kept[kRun], taken[kRun];
    widenWords(words, x.out.elements.format, kept);
    widenWords(more, x.part.elements.format, taken);
#pragma unroll
    for (int i = 0; i < kRun; ++i) kept[i] = kept[i] * merged.keep + taken[i] * merged.take;
    storeRun(x.out.elements, out + column, kept);
  }
  __syncwarp();  // all lanes have read it
  if (isMerged && own.lane() == 0) store<float>(x.logSumExp.elements, place, merged.logSumExp);
}

/// Each lane adds up its runs in their order, and a tree joins these sums.
template <int kRun, int kLanes>
__global__ void __launch_bounds__(kRowThreads) headDots(const __grid_constant__ AttentionDots x) {
  const HeadLanes<kLanes> own(x.sizes);
  const int64_t dOut = own.firstOf(x.dOut, x.sizes), out = own.firstOf(x.out, x.sizes);
  float sum = 0;
#pragma unroll 1
  for (int32_t column = own.lane() * kRun; column < x.sizes.headWidth; column += kLanes * kRun) {
    const Words<kRun> words = loadWords<kRun>(x.dOut.elements, dOut + column),
                      others = loadWords<kRun>(x.out.elements, out + column);
    float a[kRun], b[kRun];
    widenWords(words, x.dOut.elements.format, a);
    widenWords(others, x.out.elements.format, b);
#pragma unroll
    for (int i = 0; i < kRun; ++i) sum += a[i] * b[i];
  }
#pragma unroll
  for (int bits = kLanes / 2; bits > 0; bits /= 2) sum += __shfl_xor_sync(kAllLanes, sum, bits);
  if (own.isHere && own.lane() == 0)
    store<float>(x.dots.elements, placeOf(x.dots, own.batch, own.head, own.row), sum);
}

}  // namespace tutti::parallel::cuda
