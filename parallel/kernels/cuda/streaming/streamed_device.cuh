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
// Of 16 bits the second bound is near: arithmetic, a few dozen instructions for each element of
// GELU and of the gate of SwiGLU, of which exp and division are most.

#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/cuda/steps_device.cuh"
#include "parallel/kernels/cuda/streaming/runs_device.cuh"

namespace tutti::parallel::cuda {

// Steps: from an element of each input to one of each output. An output may be an input's memory.

struct Converted {
  static constexpr int kInputs = 1, kOutputs = 1, kRunsOfThread = 4;
  TUTTI_DEVICE void operator()(const float (&in)[1], float (&out)[1]) const { out[0] = in[0]; }
};
/// What is there, and what is added.
struct Added {
  static constexpr int kInputs = 2, kOutputs = 1, kRunsOfThread = 4;
  TUTTI_DEVICE void operator()(const float (&in)[2], float (&out)[1]) const {
    out[0] = in[0] + in[1];
  }
};
struct GeluOf {
  static constexpr int kInputs = 1, kOutputs = 1, kRunsOfThread = 4;
  TUTTI_DEVICE void operator()(const float (&in)[1], float (&out)[1]) const {
    out[0] = Gate<float>(in[0], true).value;
  }
};
/// dy and x.
struct GeluSlopes {
  static constexpr int kInputs = 2, kOutputs = 1, kRunsOfThread = 2;
  TUTTI_DEVICE void operator()(const float (&in)[2], float (&out)[1]) const {
    out[0] = in[0] * Gate<float>(in[1], true).slope;
  }
};
/// A gate and what it lets through.
struct Gated {
  static constexpr int kInputs = 2, kOutputs = 1, kRunsOfThread = 2;
  TUTTI_DEVICE void operator()(const float (&in)[2], float (&out)[1]) const {
    out[0] = Gate<float>(in[0], false).value * in[1];
  }
};
/// dy and these two.
struct GatedBack {
  static constexpr int kInputs = 3, kOutputs = 2, kRunsOfThread = 2;
  TUTTI_DEVICE void operator()(const float (&in)[3], float (&out)[2]) const {
    const GatedSlopes<float> slopes(in[0], in[1], in[2]);
    out[0] = slopes.gate, out[1] = slopes.up;
  }
};
template <class Step>
struct Streamed {
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
struct StreamedMove {
  RunSpace space;
  RunRows from, to;
  static constexpr int kRunsOfThread = 4;
};
__global__ inline void streamedMove(const __grid_constant__ StreamedMove x) {
  uint4 words[StreamedMove::kRunsOfThread];
  const uint32_t first = firstRun<StreamedMove::kRunsOfThread>();
#pragma unroll
  for (int i = 0; i < StreamedMove::kRunsOfThread; ++i) {
    const uint32_t run = first + uint32_t(i * kThreads);
    if (run >= x.space.runs) break;
    words[i] = static_cast<const uint4*>(
        x.from.elements.data)[elementAt(x.from, placeOf<1>(x.space, run))];
  }
#pragma unroll
  for (int i = 0; i < StreamedMove::kRunsOfThread; ++i) {
    const uint32_t run = first + uint32_t(i * kThreads);
    if (run >= x.space.runs) break;
    static_cast<uint4*>(x.to.elements.data)[elementAt(x.to, placeOf<1>(x.space, run))] = words[i];
  }
}

template <int kRun, class Step>
TUTTI_DEVICE void computeRun(const Streamed<Step>& x, const RunPlace& place,
                             const Words<kRun> (&loaded)[Step::kInputs]) {
  float in[Step::kInputs][kRun], out[Step::kOutputs][kRun];
#pragma unroll
  for (int k = 0; k < Step::kInputs; ++k) widenWords(loaded[k], x.in[k].elements.format, in[k]);
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
    storeRun(x.out[k].elements, elementAt(x.out[k], place), out[k]);
}

template <int kRun, class Step>
__global__ void streamed(const __grid_constant__ Streamed<Step> x) {
  Words<kRun> loaded[Step::kRunsOfThread][Step::kInputs];
  const uint32_t first = firstRun<Step::kRunsOfThread>();
#pragma unroll
  for (int i = 0; i < Step::kRunsOfThread; ++i) {
    const uint32_t run = first + uint32_t(i * kThreads);
    if (run >= x.space.runs) break;
    const RunPlace place = placeOf<kRun>(x.space, run);
#pragma unroll
    for (int k = 0; k < Step::kInputs; ++k)
      loaded[i][k] = loadWords<kRun>(x.in[k].elements, elementAt(x.in[k], place));
  }
#pragma unroll
  for (int i = 0; i < Step::kRunsOfThread; ++i) {
    const uint32_t run = first + uint32_t(i * kThreads);
    if (run >= x.space.runs) break;
    computeRun<kRun>(x, placeOf<kRun>(x.space, run), loaded[i]);
  }
}

/// Rows are of batch, position and head, runs of the first half of a head; `x` has the pointers.
struct StreamedRotary {
  RunSpace space;
  RunRows first, second;
  Rotary x;
};
template <int kRun>
__global__ void streamedRotary(const __grid_constant__ StreamedRotary x) {
  const uint32_t run = firstRun<1>();
  if (run >= x.space.runs) return;
  const RunPlace place = placeOf<kRun>(x.space, run);
  const int32_t t = int32_t(place.row[1]), position = x.x.at == nullptr ? t : x.x.at[t];
  if (position < 0 || position >= x.x.positions) return;  // the host refuses the call
  const int64_t angle = int64_t(position) * x.x.half + place.column;
  const int64_t at = elementAt(x.first, place), behind = elementAt(x.second, place);
  const Words<kRun> words[4] = {
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
