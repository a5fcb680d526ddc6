#pragma once

// GELU and the gate of SwiGLU, by one function, the same wherever they are computed.

#include "parallel/kernels/cuda/elements_device.cuh"

namespace tutti::parallel::cuda {

/// 1 / (1 + exp(-x)), and what that is less than 1: neither is lost where the other is almost 1.
template <class T>
struct Sigmoid {
  T value, rest;
  TUTTI_DEVICE explicit Sigmoid(T x) {
    const T small = exponential(x < T(0) ? x : -x);
    const T near = T(1) / (T(1) + small), far = small * near;
    value = x < T(0) ? far : near;
    rest = x < T(0) ? near : far;
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
