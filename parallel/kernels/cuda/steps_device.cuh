#pragma once

// What becomes of one element, wherever it is computed: the same expressions in the reference
// kernels and in those of vectorized/, so that both round alike. Of a sum of two products nvcc
// makes an fma of one, and not of the same one in each kernel: there products are rounded by
// themselves.

#include "parallel/kernels/cuda/activations_device.cuh"

namespace tutti::parallel::cuda {

/// What swiGluBackward makes of a gate and of what it lets through.
template <class T>
struct GatedSlopes {
  T gate, up;
  TUTTI_DEVICE GatedSlopes(T dy, T gateIn, T upIn) {
    const Gate<T> g(gateIn, false);
    gate = dy * upIn * g.slope;
    up = dy * g.value;
  }
};

/// A pair of elements, turned by an angle.
template <class T>
struct Turned {
  T first, second;
  TUTTI_DEVICE Turned(T a, T b, T cosine, T sine)
      : first(times(a, cosine) - times(b, sine)), second(times(b, cosine) + times(a, sine)) {}
};

/// One step of AdamW. Rates: the fields of the launch's arguments (launches.h).
template <class T>
struct AdamWScalars {
  T weight, first, second;
  template <class Rates>
  TUTTI_DEVICE AdamWScalars(const Rates& x, T weightIn, T gradient, T firstIn, T secondIn) {
    const T keep1 = T(x.beta1), keep2 = T(x.beta2);
    const T g = gradient * T(x.gradientScale);
    first = times(keep1, firstIn) + times(T(1) - keep1, g);
    second = times(keep2, secondIn) + times(T(1) - keep2, times(g, g));
    const T direction = first * T(x.inverseCorrection1) /
                        (squareRoot(second * T(x.inverseCorrection2)) + T(x.epsilon));
    const T change = direction + times(T(x.weightDecay), weightIn);
    weight = weightIn - times(T(x.learningRate), change);
  }
};

/// One step down a slope. Without a velocity the slope is the step.
template <class T>
struct SgdScalars {
  T weight, velocity;
  template <class Rates>
  TUTTI_DEVICE SgdScalars(const Rates& x, T weightIn, T gradient, bool keeps, T velocityIn) {
    velocity = times(gradient, T(x.gradientScale)) + times(T(x.weightDecay), weightIn);
    if (keeps) velocity = times(T(x.momentum), velocityIn) + velocity;
    weight = weightIn - times(T(x.learningRate), velocity);
  }
};

}  // namespace tutti::parallel::cuda
