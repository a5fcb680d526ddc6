#pragma once

// GELU and the gate of SwiGLU, by one function, the same wherever they are computed. In float32 by
// the processor's exponential and reciprocal, as a GPU that has the elements of 16 bits at the
// speed of its memory has time for some twenty instructions for each.

#include "parallel/kernels/cuda/elements_device.cuh"

namespace tutti::parallel::cuda {

/// 1 / (1 + exp(-x)), and what that is less than 1: neither is lost where the other is almost 1.
template <class T>
struct Sigmoid;
template <>
struct Sigmoid<double> {
  using T = double;
  T value, rest;
  TUTTI_DEVICE explicit Sigmoid(T x) {
    const T small = exponential(x < T(0) ? x : -x);
    const T near = T(1) / (T(1) + small), far = small * near;
    value = x < T(0) ? far : near;
    rest = x < T(0) ? near : far;
  }
};
/// With u = 2^-24 and e = exp(-x): e errs by (2 |x| + 4) u of it, for a product and its constant
/// are rounded and the exponential errs by two units in the last place; the value, besides, by 5 u
/// of it, by an addition and the two units of a quotient, and `rest` by one more. Below -87.4 both
/// are 0: the quotient is, as of any divisor beyond 2^126, and the exponential is bounded, so that
/// their product is no NaN.
template <>
struct Sigmoid<float> {
  float value, rest;
  TUTTI_DEVICE explicit Sigmoid(float x) {
    const float most = __uint_as_float((127u + 127u) << 23);
    const float small = min(::tutti::cuda::ptx::exp2Approximate(x * -1.4426950408889634f), most);
    value = __fdividef(1.0f, 1.0f + small);
    rest = small * value;
  }
};

/// GELU's tanh form is x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class T>
TUTTI_DEVICE T twiceU(T x) {
  return x * (x * x * T(0.044715) + T(1)) * T(2 * 0.79788456080286535588);
}
/// The derivative of that.
template <class T>
TUTTI_DEVICE T slopeOfTwiceU(T x) {
  return (x * x * T(3 * 0.044715) + T(1)) * T(2 * 0.79788456080286535588);
}

/// x * sigmoid(v), where v is x, or for GELU twiceU(x); and its derivative.
template <class T>
struct Gate {
  T value, slope;
  TUTTI_DEVICE Gate(T x, bool isGelu) {
    const Sigmoid<T> s(isGelu ? twiceU(x) : x);
    value = x * s.value;
    slope = s.value + value * s.rest * (isGelu ? slopeOfTwiceU(x) : T(1));
  }
};

}  // namespace tutti::parallel::cuda
