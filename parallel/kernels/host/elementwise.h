#pragma once

// The host's elementwise kernels: loops over raw rows, compiled once for each instruction set of
// elementwise.inl and chosen when the process starts. They allocate nothing, check nothing and
// include nothing from the standard library (an inline function compiled for AVX-512 must not
// become the one copy that the linker keeps for everybody).
//
// All copies give the same bits: sums run in 16 (float) or 8 (double) lanes in a fixed order, no
// multiplication is fused with an addition, and a row's tail goes through the same lanes as its
// body.

#include <cstdint>

namespace tutti::parallel::host {

template <class T>
struct AdamWStep {
  T gradientScale, learningRate, beta1, beta2, epsilon, weightDecay;
  T inverseCorrection1, inverseCorrection2;
};

template <class T>
struct SgdStep {
  T gradientScale, learningRate, weightDecay, momentum;
};

template <class T>
struct ElementwiseKernels {
  void (*add)(T* to, const T* from, int64_t count);
  /// Rows of y are `stride` apart.
  void (*addBias)(T* y, int64_t stride, const T* bias, int64_t rows, int64_t width);
  /// db[j] = sum over rows of dy[r, j] (+ db[j] when `accumulate`); rows are `stride` apart.
  void (*columnSums)(const T* dy, int64_t stride, int64_t rows, int64_t width, T* db,
                     bool accumulate);

  void (*layerNorm)(const T* x, const T* weight, const T* bias, T* y, T* mean, T* rstd,
                    int64_t rows, int64_t width, T epsilon);
  /// `residual` may be null.
  void (*layerNormBackward)(const T* dy, const T* x, const T* weight, const T* mean, const T* rstd,
                            const T* residual, T* dx, int64_t rows, int64_t width);
  void (*layerNormWeights)(const T* dy, const T* x, const T* mean, const T* rstd, T* dWeight,
                           T* dBias, int64_t rows, int64_t width, bool addWeight, bool addBias);

  void (*rmsNorm)(const T* x, const T* weight, T* y, T* rstd, int64_t rows, int64_t width,
                  T epsilon);
  /// `residual` may be null.
  void (*rmsNormBackward)(const T* dy, const T* x, const T* weight, const T* rstd,
                          const T* residual, T* dx, int64_t rows, int64_t width);
  void (*rmsNormWeights)(const T* dy, const T* x, const T* rstd, T* dWeight, int64_t rows,
                         int64_t width, bool addWeight);

  /// Turns the points (first[i], second[i]) by the angles of cosine[i] and turn * sine[i], where
  /// `turn` is 1 or -1.
  void (*rotate)(T* first, T* second, const T* cosine, const T* sine, int64_t count, T turn);
  /// Of one row: gate and up have `count` elements each.
  void (*swiGlu)(const T* gate, const T* up, T* y, int64_t count);
  /// dGate may be gate and dUp may be up.
  void (*swiGluBackward)(const T* dy, const T* gate, const T* up, T* dGate, T* dUp, int64_t count);

  void (*gelu)(const T* x, T* y, int64_t count);
  void (*geluBackward)(const T* dy, const T* x, T* dx, int64_t count);

  /// scores [keys, rows] are those of `rows` queries, transposed; query r sees the keys up to
  /// before + r. They become softmax(scale * scores) over the keys, 0 where a query does not see.
  /// logSumExp[r] is the log of the sum of exp(scale * scores): minus infinity where it sees none.
  void (*softmax)(T* scores, int64_t keys, int64_t rows, int64_t before, T scale, T* logSumExp);
  /// scores [keys, rows] as above become the probabilities exp(scale * scores - logSumExp[r]);
  /// dScores, given the gradient of the probabilities, becomes that of the unscaled scores, with
  /// dots[r] the query's sum of dOut * out. Both are 0 where a query does not see.
  void (*softmaxBackward)(T* scores, T* dScores, int64_t keys, int64_t rows, int64_t before,
                          T scale, const T* logSumExp, const T* dots);
  T (*dot)(const T* a, const T* b, int64_t count);
  /// to = keep * to + take * from.
  void (*blend)(T* to, const T* from, T keep, T take, int64_t count);

  /// Of one row: the largest logit, and the sum of exp(logit - largest). Of no logits: a number
  /// below all, and 0.
  void (*logitStatistics)(const T* logits, int64_t width, T* largest, T* sum);
  /// logits become factor * exp(logit - shift).
  void (*scaledExp)(T* logits, int64_t width, T shift, T factor);

  void (*adamW)(T* weight, const T* gradient, T* first, T* second, int64_t count,
                const AdamWStep<T>& step);
  void (*sgd)(T* weight, const T* gradient, int64_t count, const SgdStep<T>& step);
  void (*momentumSgd)(T* weight, const T* gradient, T* velocity, int64_t count,
                      const SgdStep<T>& step);
};

/// The tables of one instruction set.
struct ElementwiseSet {
  const char* name;
  ElementwiseKernels<float> floats;
  ElementwiseKernels<double> doubles;
  /// Of bfloat16 and of float16, as widen() and narrow() have it.
  void (*widenBrain)(const uint16_t* from, float* to, int64_t count);
  void (*narrowBrain)(const float* from, uint16_t* to, int64_t count);
  void (*widenHalf)(const uint16_t* from, float* to, int64_t count);
  void (*narrowHalf)(const float* from, uint16_t* to, int64_t count);
};

/// The sets that this processor can run, the best first; the last is the baseline.
struct ElementwiseSets {
  const ElementwiseSet* sets[3] = {};
  int count = 0;
};
ElementwiseSets availableElementwise();

const ElementwiseSet& baselineElementwise();
#ifdef TUTTI_LEAVES_X86
const ElementwiseSet& avx2Leaves();
const ElementwiseSet& avx512Leaves();
#endif

}  // namespace tutti::parallel::host
