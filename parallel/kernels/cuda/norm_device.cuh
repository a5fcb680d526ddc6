#pragma once

// Normalization of rows, and sums over rows. A block has a row, whose elements its threads share
// out; what is summed of a row is joined by a tree. Of sums over rows a thread has a column, and
// takes its rows in their order.
//
// Bound: the memory's bandwidth, and for sums over rows the latency of it: a thread has one load
// after the other, of which the compiler overlaps some, and there are no more threads than columns.

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/launches.h"

namespace tutti::parallel::cuda {

/// Calls visit(column) for the columns of this thread.
template <class Visit>
TUTTI_DEVICE void forColumns(int32_t width, const Visit& visit) {
  for (int32_t column = int32_t(threadIdx.x); column < width; column += int32_t(blockDim.x))
    visit(column);
}

/// The sum over a row of what term(column) gives.
template <class T, class Term>
TUTTI_DEVICE T sumOverRow(int32_t width, const Term& term) {
  T sum = 0;
  forColumns(width, [&](int32_t column) { sum += term(column); });
  return joinBlock<Sum>(sum);
}

/// A row as it is normalized, without the weight.
template <class T>
struct NormalRow {
  const Elements& x;
  int64_t first;
  T mean, rstd;
  TUTTI_DEVICE T at(int32_t column) const { return (load<T>(x, first + column) - mean) * rstd; }
};

/// Of layerNorm where `mean` is an operand, of rmsNorm where it is not.
template <class T>
TUTTI_DEVICE NormalRow<T> normalRow(const Elements& x, const Elements& mean, const Elements& rstd,
                                    int32_t row, int32_t width) {
  return {x, int64_t(row) * width, mean.data == nullptr ? T(0) : load<T>(mean, row),
          load<T>(rstd, row)};
}

template <class T>
__global__ void norm(const __grid_constant__ NormForward x) {
  const int32_t row = int32_t(blockIdx.x);
  const int64_t first = int64_t(row) * x.width;
  const auto in = [&](int32_t column) { return load<T>(x.x, first + column); };
  // What a thread stores here nobody else reads.
  if (x.residual.data != nullptr)
    forColumns(x.width, [&](int32_t column) {
      store<T>(x.x, first + column, in(column) + load<T>(x.residual, first + column));
    });
  const bool centered = x.mean.data != nullptr;
  const T mean = centered ? sumOverRow<T>(x.width, in) / T(x.width) : T(0);
  const T variance = sumOverRow<T>(x.width,
                                   [&](int32_t column) {
                                     const T distance = in(column)-mean;
                                     return distance * distance;
                                   }) /
                     T(x.width);
  const T rstd = T(1) / squareRoot(variance + T(x.epsilon));
  forColumns(x.width, [&](int32_t column) {
    const T scaled = (in(column)-mean) * rstd * load<T>(x.weight, column);
    store<T>(x.y, first + column, centered ? scaled + load<T>(x.bias, column) : scaled);
  });
  if (threadIdx.x != 0) return;
  if (centered) store<T>(x.mean, row, mean);
  store<T>(x.rstd, row, rstd);
}

/// dx may be dy or the residual: an element is written by the thread that has read it last.
template <class T>
__global__ void normBackward(const __grid_constant__ NormBackward x) {
  const NormalRow<T> normal = normalRow<T>(x.x, x.mean, x.rstd, int32_t(blockIdx.x), x.width);
  const auto slope = [&](int32_t column) {
    return load<T>(x.dy, normal.first + column) * load<T>(x.weight, column);
  };
  const T mean = x.mean.data == nullptr ? T(0) : sumOverRow<T>(x.width, slope) / T(x.width);
  const T along =
      sumOverRow<T>(x.width, [&](int32_t column) { return slope(column) * normal.at(column); }) /
      T(x.width);
  forColumns(x.width, [&](int32_t column) {
    const T dx = (slope(column) - mean - normal.at(column) * along) * normal.rstd;
    const int64_t at = normal.first + column;
    store<T>(x.dx, at, x.residual.data == nullptr ? dx : dx + load<T>(x.residual, at));
  });
}

template <class T>
__global__ void columnSums(const __grid_constant__ ColumnSums x) {
  const int64_t column = firstElement();
  if (column >= x.width) return;
  T sum = 0;
  for (int32_t row = 0; row < x.rows; ++row) {
    const T dy = load<T>(x.dy.elements, row * x.dy.stride + column);
    sum += x.x.data == nullptr
               ? dy
               : dy * normalRow<T>(x.x, x.mean, x.rstd, row, x.width).at(int32_t(column));
  }
  store<T>(x.sums, column, x.accumulate != 0 ? sum + load<T>(x.sums, column) : sum);
}

}  // namespace tutti::parallel::cuda
