#pragma once

// What is computed element by element, run by run: a block takes neighbouring runs, and each of its
// threads loads all operands of several of them before it computes the first. No loop goes on after
// these: as many blocks are launched as there are.
//
// Bound: the memory's bandwidth; bytes of an element, of which the type has b:
//   convert, gelu, addBias        read b, write b
//   add, geluBackward, swiGlu     read 2 b, write b
//   swiGluBackward                read 3 b, write 2 b
//   rotary                        read b, write b; angles come from the second-level cache
// Of 16 bits the second bound is near: arithmetic, some 16 instructions for each element of GELU
// and of the gate of SwiGLU. So kernels are compiled for operands that are all of one of these
// formats, besides those that look at each operand's.

#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/cuda/steps_device.cuh"
#include "parallel/kernels/cuda/vectorized/runs_device.cuh"

namespace tutti::parallel::cuda {

// Steps: from an element of each input to one of each output. An output may be an input's memory.

/// What a step's operands are always.
enum class RunLayout { Any, Rows, Contiguous };
struct OfAnyRows {
  static constexpr RunLayout kLayout = RunLayout::Any;
};
/// Of one dimension.
struct OfRows {
  static constexpr RunLayout kLayout = RunLayout::Rows;
};
struct OfAll {
  static constexpr RunLayout kLayout = RunLayout::Contiguous;
};
struct Converted : OfAnyRows {
  static constexpr int kInputs = 1, kOutputs = 1, kRunsOfThread = 4;
  TUTTI_DEVICE void operator()(const float (&in)[1], float (&out)[1]) const { out[0] = in[0]; }
};
/// What is there, and what is added.
struct Added : OfAnyRows {
  static constexpr int kInputs = 2, kOutputs = 1, kRunsOfThread = 4;
  TUTTI_DEVICE void operator()(const float (&in)[2], float (&out)[1]) const {
    out[0] = in[0] + in[1];
  }
};
/// Of a bias.
struct BiasAdded : Added {
  static constexpr RunLayout kLayout = RunLayout::Rows;
};
struct GeluOf : OfAll {
  static constexpr int kInputs = 1, kOutputs = 1, kRunsOfThread = 4;
  TUTTI_DEVICE void operator()(const float (&in)[1], float (&out)[1]) const {
    out[0] = Gate<float>(in[0], true).value;
  }
};
/// dy and x.
struct GeluSlopes : OfAll {
  static constexpr int kInputs = 2, kOutputs = 1, kRunsOfThread = 2;
  TUTTI_DEVICE void operator()(const float (&in)[2], float (&out)[1]) const {
    out[0] = in[0] * Gate<float>(in[1], true).slope;
  }
};
/// A gate and what it lets through.
struct Gated : OfRows {
  static constexpr int kInputs = 2, kOutputs = 1, kRunsOfThread = 2;
  TUTTI_DEVICE void operator()(const float (&in)[2], float (&out)[1]) const {
    out[0] = Gate<float>(in[0], false).value * in[1];
  }
};
/// dy and these two.
struct GatedBack : OfRows {
  static constexpr int kInputs = 3, kOutputs = 2, kRunsOfThread = 2;
  TUTTI_DEVICE void operator()(const float (&in)[3], float (&out)[2]) const {
    const GatedSlopes<float> slopes(in[0], in[1], in[2]);
    out[0] = slopes.gate, out[1] = slopes.up;
  }
};
template <class Step>
struct Vectorized {
  RunSpace space;
  RunRows in[Step::kInputs], out[Step::kOutputs];
  Step step;
};

/// Of this thread the first of its runs; the others follow by kThreads.
template <int kRunsOfThread>
TUTTI_DEVICE uint32_t firstRun() {
  return blockIdx.x * uint32_t(kThreads * kRunsOfThread) + threadIdx.x;
}

/// Word: 16 bytes; space and strides count these.
struct VectorizedMove {
  RunSpace space;
  RunRows from, to;
  static constexpr int kRunsOfThread = 4;
};
__global__ inline void vectorizedMove(const __grid_constant__ VectorizedMove x) {
  uint4 words[VectorizedMove::kRunsOfThread];
  const uint32_t first = firstRun<VectorizedMove::kRunsOfThread>();
#pragma unroll
  for (int i = 0; i < VectorizedMove::kRunsOfThread; ++i) {
    const uint32_t run = first + uint32_t(i * kThreads);
    if (run >= x.space.runs) break;
    words[i] = static_cast<const uint4*>(
        x.from.elements.data)[elementAt(x.from, placeOf<1>(x.space, run))];
  }
#pragma unroll
  for (int i = 0; i < VectorizedMove::kRunsOfThread; ++i) {
    const uint32_t run = first + uint32_t(i * kThreads);
    if (run >= x.space.runs) break;
    static_cast<uint4*>(x.to.elements.data)[elementAt(x.to, placeOf<1>(x.space, run))] = words[i];
  }
}

template <int kRun, class Step>
TUTTI_DEVICE RunPlace placeFor(const Vectorized<Step>& x, uint32_t run) {
  if constexpr (Step::kLayout == RunLayout::Rows)
    return placeInRows<kRun>(x.space, run);
  else if constexpr (Step::kLayout == RunLayout::Contiguous)
    return {{0, 0, 0}, int64_t(run) * kRun};
  else
    return placeOf<kRun>(x.space, run);
}

/// A run takes half of a word of 16 bytes.
template <int kRun, int kIn>
inline constexpr bool kIsHalfWord = kRun == 4 && (kIn == kBrain || kIn == kHalf);

template <int kRun, class Step, int kIn, int kOut>
TUTTI_DEVICE void computeRun(const Vectorized<Step>& x, const RunPlace& place,
                             const RunWords<kRun> (&loaded)[Step::kInputs]) {
  float in[Step::kInputs][kRun], out[Step::kOutputs][kRun];
#pragma unroll
  for (int k = 0; k < Step::kInputs; ++k)
    if constexpr (kIsHalfWord<kRun, kIn>)
      widenHalfWord(loaded[k], ElementFormat(kIn), in[k]);
    else
      widenWords(loaded[k], known<kIn>(x.in[k].elements).format, in[k]);
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    float of[Step::kInputs], to[Step::kOutputs];
#pragma unroll
    for (int k = 0; k < Step::kInputs; ++k) of[k] = in[k][i];
    x.step(of, to);
#pragma unroll
    for (int k = 0; k < Step::kOutputs; ++k) out[k][i] = to[k];
  }
#pragma unroll
  for (int k = 0; k < Step::kOutputs; ++k)
    storeRun(known<kOut>(x.out[k].elements), elementAt(x.out[k], place), out[k]);
}

/// Runs of 4 of operands of float32, or that are made float32; of 8 of any.
template <int kRun, class Step, int kIn, int kOut>
__global__ void __launch_bounds__(kThreads) vectorized(const __grid_constant__ Vectorized<Step> x) {
  RunWords<kRun> loaded[Step::kRunsOfThread][Step::kInputs];
  const uint32_t first = firstRun<Step::kRunsOfThread>();
#pragma unroll
  for (int i = 0; i < Step::kRunsOfThread; ++i) {
    const uint32_t run = first + uint32_t(i * kThreads);
    if (run >= x.space.runs) break;
    const RunPlace place = placeFor<kRun>(x, run);
#pragma unroll
    for (int k = 0; k < Step::kInputs; ++k) {
      const int64_t at = elementAt(x.in[k], place);
      if constexpr (kIsHalfWord<kRun, kIn>)
        loaded[i][k] = loadHalfWord(x.in[k].elements, at);
      else
        loaded[i][k] = loadWords<kRun>(known<kIn>(x.in[k].elements), at);
    }
  }
#pragma unroll
  for (int i = 0; i < Step::kRunsOfThread; ++i) {
    const uint32_t run = first + uint32_t(i * kThreads);
    if (run >= x.space.runs) break;
    computeRun<kRun, Step, kIn, kOut>(x, placeFor<kRun>(x, run), loaded[i]);
  }
}

/// Rows are of batch, position and head, runs of the first half of a head; `x` has the pointers.
struct VectorizedRotary {
  RunSpace space;
  RunRows first, second;
  Rotary x;
};
template <int kRun>
__global__ void vectorizedRotary(const __grid_constant__ VectorizedRotary x) {
  const uint32_t run = firstRun<1>();
  if (run >= x.space.runs) return;
  const RunPlace place = placeOf<kRun>(x.space, run);
  const int32_t t = int32_t(place.row[1]), position = x.x.at == nullptr ? t : x.x.at[t];
  if (position < 0 || position >= x.x.positions) return;  // the host refuses the call
  const int64_t angle = int64_t(position) * x.x.half + place.column;
  const int64_t at = elementAt(x.first, place), behind = elementAt(x.second, place);
  const RunWords<kRun> words[4] = {
      loadWords<kRun>(x.first.elements, at), loadWords<kRun>(x.second.elements, behind),
      loadWords<kRun>(x.x.cosine, angle), loadWords<kRun>(x.x.sine, angle)};
  float first[kRun], second[kRun], cosine[kRun], sine[kRun];
  widenWords(words[0], x.x.x.format, first);
  widenWords(words[1], x.x.x.format, second);
  widenWords(words[2], x.x.cosine.format, cosine);
  widenWords(words[3], x.x.sine.format, sine);
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    const Turned<float> turned(first[i], second[i], cosine[i], x.x.back != 0 ? -sine[i] : sine[i]);
    first[i] = turned.first, second[i] = turned.second;
  }
  storeRun(x.first.elements, at, first);
  storeRun(x.second.elements, behind, second);
}

}  // namespace tutti::parallel::cuda
