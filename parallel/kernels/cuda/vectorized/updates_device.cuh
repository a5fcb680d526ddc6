#pragma once

// What optimizers do to many weights at once, and copies of many to another type. A block has up to
// kUpdateElements neighbouring elements of one weight: by runs of words of 16 bytes as far as there
// are whole runs, and one by one behind them. Where an operand does not begin at a multiple of 16
// bytes, all are one by one. One by one they are as the reference kernels have them.
//
// Bound: the memory's bandwidth; bytes of an element of float32:
//   adamW    read 16, write 12; with a copy of 16 bits write 14
//   sgd      read 8, write 4; with a velocity read 12, write 8
//   copy     read 4, write 2 where it is to 16 bits
// What a launch takes besides does not depend on how many weights there are, as long as they fit in
// one table; a weight whose elements fill no block wastes the rest of its threads.

#include <type_traits>

#include "parallel/kernels/cuda/steps_device.cuh"
#include "parallel/kernels/cuda/tables_device.cuh"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/runs_device.cuh"

namespace tutti::parallel::cuda {

// Updates of one element of each operand, in place. All but the gradient change.

TUTTI_DEVICE void updateOne(const AdamWRates& rates, float (&x)[4]) {
  const AdamWScalars<float> step(rates, x[0], x[1], x[2], x[3]);
  x[0] = step.weight, x[2] = step.first, x[3] = step.second;
}
TUTTI_DEVICE void updateOne(const AdamWRates& rates, float (&x)[5]) {
  const AdamWScalars<float> step(rates, x[0], x[1], x[2], x[3]);
  x[0] = x[4] = step.weight, x[2] = step.first, x[3] = step.second;
}
TUTTI_DEVICE void updateOne(const SgdRates& rates, float (&x)[2]) {
  x[0] = SgdScalars<float>(rates, x[0], x[1], false, 0.0f).weight;
}
TUTTI_DEVICE void updateOne(const SgdRates& rates, float (&x)[3]) {
  const SgdScalars<float> step(rates, x[0], x[1], true, x[2]);
  x[0] = step.weight, x[2] = step.velocity;
}
TUTTI_DEVICE void updateOne(const CopyRates&, float (&x)[2]) { x[0] = x[1]; }
TUTTI_DEVICE constexpr bool changes(int operand) { return operand != 1; }
/// The one that is the weight's copy, of 16 bits and not read: AdamW's fifth.
template <int kOperands>
inline constexpr int kCopy = kOperands == 5 ? 4 : kOperands;

/// One weight's operands, and what becomes of them.
template <class Rates, int kOperands>
struct Updated {
  static_assert(kOperands < 5 || std::is_same_v<Rates, AdamWRates>);
  Elements operands[kOperands];
  Rates rates;

  TUTTI_DEVICE Updated(const Updates<Rates, kOperands>& x,
                       const typename TensorTable<kOperands>::Entry& entry)
      : rates(x.rates) {
    rates.weightDecay = entry.weightDecay;
#pragma unroll
    for (int k = 0; k < kOperands; ++k) operands[k] = {entry.operands[k], x.table.formats[k]};
  }

  TUTTI_DEVICE bool isAligned() const {
    uintptr_t all = 0;
#pragma unroll
    for (int k = 0; k < kOperands; ++k) all |= reinterpret_cast<uintptr_t>(operands[k].data);
    return all % sizeof(uint4) == 0;
  }

  template <int kRun>
  TUTTI_DEVICE void loadRun(int64_t at, RunWords<kRun> (&loaded)[kOperands]) const {
#pragma unroll
    for (int k = 0; k < kOperands; ++k)
      if (k != kCopy<kOperands>) loaded[k] = loadWords<kRun>(operands[k], at);
  }

  template <int kRun>
  TUTTI_DEVICE void updateRun(int64_t at, const RunWords<kRun> (&loaded)[kOperands]) const {
    float x[kOperands][kRun];
#pragma unroll
    for (int k = 0; k < kOperands; ++k)
      if (k != kCopy<kOperands>) widenWords(loaded[k], operands[k].format, x[k]);
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      float one[kOperands];
#pragma unroll
      for (int k = 0; k < kOperands; ++k) one[k] = k == kCopy<kOperands> ? 0 : x[k][i];
      updateOne(rates, one);
#pragma unroll
      for (int k = 0; k < kOperands; ++k) x[k][i] = one[k];
    }
#pragma unroll
    for (int k = 0; k < kOperands; ++k) {
      if (!changes(k)) continue;
      if constexpr (kRun == 4) {
        if (k == kCopy<kOperands>) {
          storeHalfWord(operands[k], at, x[k]);
          continue;
        }
      }
      storeRun(operands[k], at, x[k]);
    }
  }

  TUTTI_DEVICE void updateElement(int64_t at) const {
    float one[kOperands];
#pragma unroll
    for (int k = 0; k < kOperands; ++k)
      one[k] = k == kCopy<kOperands> ? 0 : load<float>(operands[k], at);
    updateOne(rates, one);
#pragma unroll
    for (int k = 0; k < kOperands; ++k)
      if (changes(k)) store<float>(operands[k], at, one[k]);
  }
};

template <int kRun, class Rates, int kOperands>
__global__ void updated(const __grid_constant__ Updates<Rates, kOperands> x) {
  constexpr int kRuns = kUpdateElements / (kThreads * kRun);
  const auto& entry = entryOfBlock(x.table);
  const Updated<Rates, kOperands> weight(x, entry);
  const int64_t first = firstOfBlock(entry, kUpdateElements), left = entry.count - first;
  const int32_t count = left < kUpdateElements ? int32_t(left) : kUpdateElements;
  const int32_t inRuns = weight.isAligned() ? count / kRun * kRun : 0;
  const int32_t own = int32_t(threadIdx.x);
  RunWords<kRun> loaded[kRuns][kOperands];
#pragma unroll
  for (int i = 0; i < kRuns; ++i) {
    const int32_t at = (own + i * kThreads) * kRun;
    if (at >= inRuns) break;
    weight.loadRun(first + at, loaded[i]);
  }
#pragma unroll
  for (int i = 0; i < kRuns; ++i) {
    const int32_t at = (own + i * kThreads) * kRun;
    if (at >= inRuns) break;
    weight.updateRun(first + at, loaded[i]);
  }
  for (int32_t at = inRuns + own; at < count; at += kThreads) weight.updateElement(first + at);
}

}  // namespace tutti::parallel::cuda
