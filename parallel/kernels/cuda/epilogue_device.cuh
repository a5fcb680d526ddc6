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
  if (x.format == Format::Float32) {
    const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(x.data) + at);
    values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
    return;
  }
  const uint2 four = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(x.data) + at);
  const uint32_t pairs[2] = {four.x, four.y};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto bits = uint16_t(pairs[i / 2] >> 16 * (i % 2));
    values[i] = x.format == Format::BFloat16 ? widenBrain(bits) : widenHalf(bits);
  }
}

/// Rounded by the processor's instructions, which differ from store() in the bits of a NaN alone.
TUTTI_DEVICE void storeFour(const Elements& x, int64_t at, const float (&values)[4]) {
  if (x.format == Format::Float32) {
    *reinterpret_cast<float4*>(static_cast<float*>(x.data) + at) =
        make_float4(values[0], values[1], values[2], values[3]);
    return;
  }
  const bool isBrain = x.format == Format::BFloat16;
  const uint32_t low =
      isBrain ? ptx::packBf16(values[0], values[1]) : ptx::packF16(values[0], values[1]);
  const uint32_t high =
      isBrain ? ptx::packBf16(values[2], values[3]) : ptx::packF16(values[2], values[3]);
  *reinterpret_cast<uint2*>(static_cast<uint16_t*>(x.data) + at) = make_uint2(low, high);
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
/// Adds what is there.
template <class T, int kWidth>
TUTTI_DEVICE void addRun(T (&values)[kWidth], const Elements& x, int64_t at) {
  T more[kWidth];
  loadRun(x, at, more);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] += more[i];
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

/// Of SwiGluBackward `x` becomes what goes to the left half of c, and `right` what goes to the
/// right half.
template <class T, int kWidth>
TUTTI_DEVICE void activate(const GemmOutput& out, T (&x)[kWidth], T (&right)[kWidth], int32_t row,
                           int32_t column) {
  const Epilogue& e = out.epilogue;
  const bool isGelu = e.activation <= Activation::GeluBackward;
  const Elements& inner = e.inner.elements;
  const int64_t at = row * e.inner.stride + column;
  T in[kWidth];
  if (e.activation != Activation::Gelu) {
    loadRun(inner, at, in);
  } else {
    if (inner.data != nullptr) storeRun(inner, at, x);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) in[i] = x[i];
  }
  if (e.activation == Activation::SwiGlu) storeRun(inner, at + out.columns, x);
  if (e.activation == Activation::SwiGluBackward) loadRun(inner, at + out.columns, right);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const Gate<T> gate(in[i], isGelu);
    const T d = x[i];
    switch (e.activation) {
      case Activation::Gelu: x[i] = gate.value; break;
      case Activation::GeluBackward: x[i] = d * gate.slope; break;
      case Activation::SwiGlu: x[i] = gate.value * d; break;
      default: x[i] = d * right[i] * gate.slope; right[i] = d * gate.value;
    }
  }
}

/// Sums of neighbours in a row, one or, where the output is a vector's, four from a multiple of
/// four on. Those beyond the edges are dropped.
template <class T, int kWidth>
TUTTI_DEVICE void storeSums(const GemmOutput& out, T (&x)[kWidth], int32_t row, int32_t column) {
  if (row >= out.rows || column >= out.columns) return;
  const Epilogue& e = out.epilogue;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) x[i] *= T(e.scale);
  if (e.bias.data != nullptr) addRun(x, e.bias, column);
  T right[kWidth] = {};
  if (e.activation != Activation::None) activate(out, x, right, row, column);
  const int halves = e.activation == Activation::SwiGluBackward ? 2 : 1;
#pragma unroll 1
  for (int half = 0; half < halves; ++half, column += out.columns) {
    if (half > 0) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[i] = right[i];
    }
    if (e.residual.elements.data != nullptr)
      addRun(x, e.residual.elements, row * e.residual.stride + column);
    const int64_t at = row * out.c.stride + column;
    if (out.accumulate != 0) addRun(x, out.c.elements, at);
    storeRun(out.c.elements, at, x);
  }
}

}  // namespace tutti::parallel::cuda
