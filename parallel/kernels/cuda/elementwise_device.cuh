#pragma once

// What is computed element by element: copies, sums, activations, rotary positions and optimizers.
// A grid's threads share out the elements, neighbours to neighbours.
//
// Bound: the memory's bandwidth, each operand once.

#include "parallel/kernels/cuda/activations_device.cuh"
#include "parallel/kernels/cuda/launches.h"

namespace tutti::parallel::cuda {

/// Word: unsigned, of an element's size.
template <class Word>
__global__ void move(const __grid_constant__ Move x) {
  for (int64_t i = firstElement(); i < x.count; i += elementStep())
    static_cast<Word*>(x.to)[placeOf(x.toRows, x.width, i)] =
        static_cast<const Word*>(x.from)[placeOf(x.fromRows, x.width, i)];
}

/// From: float or double, what the source is loaded as; To: what the target is stored from.
template <class From, class To>
__global__ void convert(const __grid_constant__ Convert x) {
  for (int64_t i = firstElement(); i < x.count; i += elementStep())
    store<To>(x.to, placeOf(x.toRows, x.width, i),
              static_cast<To>(load<From>(x.from, placeOf(x.fromRows, x.width, i))));
}

template <class T>
__global__ void add(const __grid_constant__ Add x) {
  for (int64_t i = firstElement(); i < x.count; i += elementStep()) {
    const int64_t to = placeOf(x.toRows, x.width, i);
    store<T>(x.to, to, load<T>(x.to, to) + load<T>(x.from, placeOf(x.fromRows, x.width, i)));
  }
}

template <class T>
__global__ void addBias(const __grid_constant__ AddBias x) {
  for (int64_t i = firstElement(); i < x.rows * x.width; i += elementStep()) {
    const int64_t column = i % x.width, at = i / x.width * x.y.stride + column;
    store<T>(x.y.elements, at, load<T>(x.y.elements, at) + load<T>(x.bias, column));
  }
}

template <class T>
__global__ void gelu(const __grid_constant__ Gelu x) {
  for (int64_t i = firstElement(); i < x.count; i += elementStep())
    store<T>(x.y, i, Gate<T>(load<T>(x.x, i), true).value);
}

template <class T>
__global__ void geluBackward(const __grid_constant__ Gelu x) {
  for (int64_t i = firstElement(); i < x.count; i += elementStep())
    store<T>(x.y, i, load<T>(x.dy, i) * Gate<T>(load<T>(x.x, i), true).slope);
}

template <class T>
__global__ void swiGlu(const __grid_constant__ SwiGlu x) {
  for (int64_t i = firstElement(); i < x.rows * x.width; i += elementStep()) {
    const int64_t gate = i / x.width * 2 * x.width + i % x.width;
    const Gate<T> g(load<T>(x.x, gate), false);
    store<T>(x.y, i, g.value * load<T>(x.x, gate + x.width));
  }
}

template <class T>
__global__ void swiGluBackward(const __grid_constant__ SwiGlu x) {
  for (int64_t i = firstElement(); i < x.rows * x.width; i += elementStep()) {
    const int64_t gate = i / x.width * 2 * x.width + i % x.width, up = gate + x.width;
    const Gate<T> g(load<T>(x.x, gate), false);
    const T u = load<T>(x.x, up), d = load<T>(x.dy, i);
    store<T>(x.y, gate, d * u * g.slope);
    store<T>(x.y, up, d * g.value);
  }
}

/// A thread turns one pair of elements.
template <class T>
__global__ void rotary(const __grid_constant__ Rotary x) {
  const int64_t pairs = int64_t(x.heads) * x.half;
  for (int64_t i = firstElement(); i < x.rows * pairs; i += elementStep()) {
    const int64_t row = i / pairs, head = i % pairs / x.half, pair = i % x.half;
    const int32_t t = int32_t(row % x.context), position = x.at == nullptr ? t : x.at[t];
    if (position < 0 || position >= x.positions) continue;  // the host refuses the call
    const int64_t first = row * x.columns + head * 2 * x.half + pair, second = first + x.half;
    const int64_t angle = int64_t(position) * x.half + pair;
    const T a = load<T>(x.x, first), b = load<T>(x.x, second);
    const T cosine = load<T>(x.cosine, angle), size = load<T>(x.sine, angle);
    const T sine = x.back != 0 ? -size : size;
    store<T>(x.x, first, a * cosine - b * sine);
    store<T>(x.x, second, b * cosine + a * sine);
  }
}

template <class T>
__global__ void adamW(const __grid_constant__ AdamW x) {
  const T keep1 = T(x.beta1), keep2 = T(x.beta2);
  for (int64_t i = firstElement(); i < x.count; i += elementStep()) {
    const T g = load<T>(x.gradient, i) * T(x.gradientScale);
    const T m = keep1 * load<T>(x.first, i) + (T(1) - keep1) * g;
    const T v = keep2 * load<T>(x.second, i) + (T(1) - keep2) * (g * g);
    store<T>(x.first, i, m);
    store<T>(x.second, i, v);
    const T direction =
        m * T(x.inverseCorrection1) / (squareRoot(v * T(x.inverseCorrection2)) + T(x.epsilon));
    const T weight = load<T>(x.weight, i);
    store<T>(x.weight, i, weight - T(x.learningRate) * (direction + T(x.weightDecay) * weight));
  }
}

/// Without a velocity the slope is the step.
template <class T>
__global__ void sgd(const __grid_constant__ Sgd x) {
  for (int64_t i = firstElement(); i < x.count; i += elementStep()) {
    const T weight = load<T>(x.weight, i);
    T step = load<T>(x.gradient, i) * T(x.gradientScale) + T(x.weightDecay) * weight;
    if (x.velocity.data != nullptr) {
      step = T(x.momentum) * load<T>(x.velocity, i) + step;
      store<T>(x.velocity, i, step);
    }
    store<T>(x.weight, i, weight - T(x.learningRate) * step);
  }
}

}  // namespace tutti::parallel::cuda
