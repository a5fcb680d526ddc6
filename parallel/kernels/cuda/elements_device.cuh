#pragma once

// Loading and storing elements. A kernel's T is float or double; what is float64 is loaded as
// double and everything else as float. Types of 16 bits are converted bit by bit as the host does
// (kernels/host/staging.cc), so that both give the same bits, of NaN too.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/elements.h"

namespace tutti::parallel::cuda {

/// Rounded, whatever is added to it: nvcc makes no fma of it.
TUTTI_DEVICE float times(float a, float b) { return __fmul_rn(a, b); }
TUTTI_DEVICE double times(double a, double b) { return __dmul_rn(a, b); }

TUTTI_DEVICE float widenBrain(uint16_t bits) { return __uint_as_float(uint32_t(bits) << 16); }

/// To nearest even; a NaN keeps a bit, so that it does not become infinity.
TUTTI_DEVICE uint16_t narrowToBrain(float value) {
  const uint32_t bits = __float_as_uint(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return uint16_t(value == value ? rounded : (bits >> 16 | 0x40u));
}

/// Moved to where float32 has them, exponent and mantissa are too small by 2^112.
TUTTI_DEVICE float widenHalf(uint16_t bits) {
  constexpr uint32_t kScale = (127u + 112u) << 23;  // 2^112
  const uint32_t size = (bits & 0x7fffu) << 13;
  const uint32_t scaled =
      __float_as_uint(__fmul_rn(__uint_as_float(size), __uint_as_float(kScale)));
  const uint32_t special = size >= 0x7c00u << 13 ? 0x7f800000u : 0u;
  return __uint_as_float((bits & 0x8000u) << 16 | scaled | special);
}

/// Below 2^-14, adding 0.5 rounds to a multiple of 2^-24, the least there is.
TUTTI_DEVICE uint16_t narrowToHalf(float value) {
  constexpr uint32_t kOneHalf = 126u << 23;
  const uint32_t bits = __float_as_uint(value), size = bits & 0x7fffffffu;
  const uint32_t least =
      __float_as_uint(__fadd_rn(__uint_as_float(size), __uint_as_float(kOneHalf))) - kOneHalf;
  const uint32_t rounded = (size + 0xfffu + (size >> 13 & 1u) - (112u << 23)) >> 13;
  const uint32_t finite = size < 113u << 23 ? least : rounded;
  const uint32_t special = size > 0x7f800000u ? (0x7e00u | (size >> 13 & 0x3ffu)) : 0x7c00u;
  return uint16_t((bits >> 16 & 0x8000u) | (size < 0x477ff000u ? finite : special));
}

template <class T>
struct Access;
template <>
struct Access<double> {
  static TUTTI_DEVICE double load(const Elements& x, int64_t i) {
    return static_cast<const double*>(x.data)[i];
  }
  static TUTTI_DEVICE void store(const Elements& x, int64_t i, double value) {
    static_cast<double*>(x.data)[i] = value;
  }
};
template <>
struct Access<float> {
  static TUTTI_DEVICE float load(const Elements& x, int64_t i) {
    if (x.format == ElementFormat::Float32) return static_cast<const float*>(x.data)[i];
    const uint16_t bits = static_cast<const uint16_t*>(x.data)[i];
    return x.format == ElementFormat::BFloat16 ? widenBrain(bits) : widenHalf(bits);
  }
  static TUTTI_DEVICE void store(const Elements& x, int64_t i, float value) {
    if (x.format == ElementFormat::Float32)
      static_cast<float*>(x.data)[i] = value;
    else
      static_cast<uint16_t*>(x.data)[i] =
          x.format == ElementFormat::BFloat16 ? narrowToBrain(value) : narrowToHalf(value);
  }
};

template <class T>
TUTTI_DEVICE T load(const Elements& x, int64_t i) {
  return Access<T>::load(x, i);
}
template <class T>
TUTTI_DEVICE void store(const Elements& x, int64_t i, T value) {
  Access<T>::store(x, i, value);
}

/// So many elements further.
TUTTI_DEVICE Elements movedBy(const Elements& x, int64_t elements) {
  const int64_t bytes = x.format == ElementFormat::Float64   ? 8
                        : x.format == ElementFormat::Float32 ? 4
                                                             : 2;
  return {static_cast<char*>(x.data) + elements * bytes, x.format};
}

/// Of an element that is counted row by row, where it is.
TUTTI_DEVICE int64_t placeOf(const RowPlaces& rows, int64_t width, int64_t i) {
  if (rows.isContiguous != 0) return i;
  int64_t row = i / width, place = i % width;
  for (int d = 2; d >= 0; --d) {
    place += row % rows.extents[d] * rows.strides[d];
    row /= rows.extents[d];
  }
  return place;
}

// A grid's threads share out elements: each begins at its own and goes on by their number.
TUTTI_DEVICE int64_t firstElement() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
TUTTI_DEVICE int64_t elementStep() { return int64_t(gridDim.x) * blockDim.x; }

// Not the approximate functions of the processor: errors are of a few units in the last place.
TUTTI_DEVICE float exponential(float x) { return expf(x); }
TUTTI_DEVICE double exponential(double x) { return exp(x); }
TUTTI_DEVICE float logarithm(float x) { return logf(x); }
TUTTI_DEVICE double logarithm(double x) { return log(x); }
TUTTI_DEVICE float squareRoot(float x) { return sqrtf(x); }
TUTTI_DEVICE double squareRoot(double x) { return sqrt(x); }

/// As logarithms of sums begin: no number is smaller that a softmax could be of.
template <class T>
TUTTI_DEVICE T minusInfinity() {
  return T(__uint_as_float(0xff800000u));
}

}  // namespace tutti::parallel::cuda
