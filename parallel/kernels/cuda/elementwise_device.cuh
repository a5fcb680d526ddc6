#pragma once

// What is computed element by element: copies, sums, activations, rotary positions and optimizers.
// A grid's threads share out the elements, neighbours to neighbours.
//
// Bound: the memory's bandwidth, each operand once.

#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/cuda/steps_device.cuh"

namespace tutti::parallel::cuda {

/// Word: unsigned, of an element's size.
template <class Word>
__global__ void move(const __grid_constant__ MoveRows x) {
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
__global__ void add(const __grid_constant__ AddRows x) {
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
    const GatedSlopes<T> slopes(load<T>(x.dy, i), load<T>(x.x, gate), load<T>(x.x, up));
    store<T>(x.y, gate, slopes.gate);
    store<T>(x.y, up, slopes.up);
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
    const T size = load<T>(x.sine, angle), sine = x.back != 0 ? -size : size;
    const Turned<T> turned(load<T>(x.x, first), load<T>(x.x, second), load<T>(x.cosine, angle),
                           sine);
    store<T>(x.x, first, turned.first);
    store<T>(x.x, second, turned.second);
  }
}

template <class T>
__global__ void adamW(const __grid_constant__ AdamWUpdate x) {
  for (int64_t i = firstElement(); i < x.count; i += elementStep()) {
    const AdamWScalars<T> step(x, load<T>(x.weight, i), load<T>(x.gradient, i), load<T>(x.first, i),
                               load<T>(x.second, i));
    store<T>(x.first, i, step.first);
    store<T>(x.second, i, step.second);
    store<T>(x.weight, i, step.weight);
  }
}

template <class T>
__global__ void sgd(const __grid_constant__ SgdUpdate x) {
  const bool keeps = x.velocity.data != nullptr;
  for (int64_t i = firstElement(); i < x.count; i += elementStep()) {
    const SgdScalars<T> step(x, load<T>(x.weight, i), load<T>(x.gradient, i), keeps,
                             keeps ? load<T>(x.velocity, i) : T(0));
    if (keeps) store<T>(x.velocity, i, step.velocity);
    store<T>(x.weight, i, step.weight);
  }
}

}  // namespace tutti::parallel::cuda
