#pragma once

// From sums to c, the same for all kernels that compute products: neighbours of a row go through
// the epilogue in registers, in the type that sums are in, and are rounded once.
//
// Bound: what an epilogue reads and writes of `inner` and of the residual comes on top of c's
// bytes, and the calls that it stands for would read and write c once more each.

#include "parallel/kernels/cuda/activations_device.cuh"
#include "parallel/kernels/cuda/epilogue.h"

namespace tutti::parallel::cuda {

namespace ptx = ::tutti::cuda::ptx;

TUTTI_DEVICE void loadFour(const Elements& x, int64_t at, float (&values)[4]) {
  if (x.format == ElementFormat::Float32) {
    const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(x.data) + at);
    values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
    return;
  }
  const uint2 four = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(x.data) + at);
  const uint32_t pairs[2] = {four.x, four.y};
  if (x.format == ElementFormat::BFloat16) {
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = widenBrain(uint16_t(pairs[i / 2] >> 16 * (i % 2)));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = widenHalf(uint16_t(pairs[i / 2] >> 16 * (i % 2)));
  }
}

/// Rounded by the processor's instructions, which differ from store() in the bits of a NaN alone.
TUTTI_DEVICE void storeFour(const Elements& x, int64_t at, const float (&values)[4]) {
  if (x.format == ElementFormat::Float32) {
    const float4 word = make_float4(values[0], values[1], values[2], values[3]);
    *reinterpret_cast<float4*>(static_cast<float*>(x.data) + at) = word;
    return;
  }
  const bool isBrain = x.format == ElementFormat::BFloat16;
  const uint32_t low =
      isBrain ? ptx::packBf16(values[0], values[1]) : ptx::packF16(values[0], values[1]);
  const uint32_t high =
      isBrain ? ptx::packBf16(values[2], values[3]) : ptx::packF16(values[2], values[3]);
  const uint2 word = make_uint2(low, high);
  *reinterpret_cast<uint2*>(static_cast<uint16_t*>(x.data) + at) = word;
}

/// One element, or four that are aligned.
template <class T, int kWidth>
TUTTI_DEVICE void loadRun(const Elements& x, int64_t at, T (&values)[kWidth]) {
  if constexpr (kWidth == 1)
    values[0] = load<T>(x, at);
  else
    loadFour(x, at, values);
}
template <class T, int kWidth>
TUTTI_DEVICE void storeRun(const Elements& x, int64_t at, const T (&values)[kWidth]) {
  if constexpr (kWidth == 1)
    store<T>(x, at, values[0]);
  else
    storeFour(x, at, values);
}
/// The same of several rows, `stride` elements apart; all are read before the first is used.
template <class T, int kRows, int kWidth>
TUTTI_DEVICE void loadRows(const Elements& x, int64_t at, int64_t stride,
                           T (&values)[kRows][kWidth]) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) loadRun(x, at + i * stride, values[i]);
}
template <class T, int kRows, int kWidth>
TUTTI_DEVICE void storeRows(const Elements& x, int64_t at, int64_t stride,
                            const T (&values)[kRows][kWidth]) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) storeRun(x, at + i * stride, values[i]);
}
/// Adds what is there.
template <class T, int kRows, int kWidth>
TUTTI_DEVICE void addRows(T (&values)[kRows][kWidth], const Elements& x, int64_t at,
                          int64_t stride) {
  T more[kRows][kWidth];
  loadRows(x, at, stride, more);
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kWidth; ++j) values[i][j] += more[i][j];
}

/// Of one product, and of one split.
TUTTI_DEVICE GemmOutput outputOf(const GemmOutput& out, int32_t product, int32_t split) {
  const BatchStrides& strides = out.strides;
  GemmOutput own = out;
  own.c.elements = movedBy(out.c.elements, product * strides.c + split * out.splitStride);
  own.epilogue.inner.elements = movedBy(out.epilogue.inner.elements, product * strides.inner);
  own.epilogue.residual.elements =
      movedBy(out.epilogue.residual.elements, product * strides.residual);
  own.epilogue.bias = movedBy(out.epilogue.bias, product * strides.bias);
  return own;
}

template <Activation kActivation, class T>
TUTTI_DEVICE void activateOne(T in, T& x, T& right) {
  const Gate<T> gate(in, kActivation <= Activation::GeluBackward);
  const T d = x;
  switch (kActivation) {
    case Activation::Gelu: x = gate.value; break;
    case Activation::GeluBackward: x = d * gate.slope; break;
    case Activation::SwiGlu: x = gate.value * d; break;
    default: x = d * right * gate.slope; right = d * gate.value;
  }
}

/// Of SwiGluBackward `x` becomes what goes to the left half of c, and `right` what goes to the
/// right half.
template <Activation kActivation, int kRowStep, class T, int kRows, int kWidth>
TUTTI_DEVICE void activate(const GemmOutput& out, T (&x)[kRows][kWidth], T (&right)[kRows][kWidth],
                           int32_t row, int32_t column) {
  const Elements& inner = out.epilogue.inner.elements;
  const int64_t stride = kRowStep * out.epilogue.inner.stride;
  const int64_t at = row * out.epilogue.inner.stride + column;
  T in[kRows][kWidth];
  if constexpr (kActivation == Activation::Gelu) {
    if (inner.data != nullptr) storeRows(inner, at, stride, x);
  } else {
    loadRows(inner, at, stride, in);
  }
  if constexpr (kActivation == Activation::SwiGlu) storeRows(inner, at + out.columns, stride, x);
  if constexpr (kActivation == Activation::SwiGluBackward)
    loadRows(inner, at + out.columns, stride, right);
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kWidth; ++j)
      activateOne<kActivation>(kActivation == Activation::Gelu ? x[i][j] : in[i][j], x[i][j],
                               right[i][j]);
}

template <class T>
TUTTI_DEVICE T scaleOf(const GemmOutput& out) {
  if constexpr (sizeof(T) == sizeof(double))
    return out.epilogue.scale;
  else
    return out.scale;
}

/// Sums of neighbours from `column` on, one or, where the output is a vector's, four from a
/// multiple of four on; of kRows rows from `row` on, kRowStep apart, all of which there are. Those
/// beyond the last column are dropped.
template <int kRowStep, class T, int kRows, int kWidth>
TUTTI_DEVICE void storeSums(const GemmOutput& out, T (&x)[kRows][kWidth], int32_t row,
                            int32_t column) {
  if (column >= out.columns) return;
  const Epilogue& e = out.epilogue;
  if (out.isScaled != 0) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kWidth; ++j) x[i][j] = times(x[i][j], scaleOf<T>(out));
  }
  if (e.bias.data != nullptr) {
    T bias[kWidth];
    loadRun(e.bias, column, bias);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kWidth; ++j) x[i][j] += bias[j];
  }
  T right[kRows][kWidth] = {};
  switch (e.activation) {
    case Activation::None: break;
    case Activation::Gelu: activate<Activation::Gelu, kRowStep>(out, x, right, row, column); break;
    case Activation::GeluBackward:
      activate<Activation::GeluBackward, kRowStep>(out, x, right, row, column);
      break;
    case Activation::SwiGlu:
      activate<Activation::SwiGlu, kRowStep>(out, x, right, row, column);
      break;
    case Activation::SwiGluBackward:
      activate<Activation::SwiGluBackward, kRowStep>(out, x, right, row, column);
      break;
  }
  const int halves = e.activation == Activation::SwiGluBackward ? 2 : 1;
#pragma unroll 1
  for (int half = 0; half < halves; ++half, column += out.columns) {
    if (half > 0) {
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kWidth; ++j) x[i][j] = right[i][j];
    }
    if (e.residual.elements.data != nullptr)
      addRows(x, e.residual.elements, row * e.residual.stride + column,
              kRowStep * e.residual.stride);
    const int64_t at = row * out.c.stride + column;
    if (out.accumulate != 0) addRows(x, out.c.elements, at, kRowStep * out.c.stride);
    storeRows(out.c.elements, at, kRowStep * out.c.stride, x);
  }
}
/// The same of one row; of none, where it is beyond the last.
template <class T, int kWidth>
TUTTI_DEVICE void storeSums(const GemmOutput& out, const T (&x)[kWidth], int32_t row,
                            int32_t column) {
  if (row >= out.rows) return;
  T one[1][kWidth];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) one[0][j] = x[j];
  storeSums<1>(out, one, row, column);
}

}  // namespace tutti::parallel::cuda
