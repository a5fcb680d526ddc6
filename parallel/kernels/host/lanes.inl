// Vectors of 16 float32 or 8 float64, for the instruction set that this file is compiled for: what
// loads and stores the end of a row, sums of lanes, exp and log. Included by elementwise.inl only,
// behind conversions.inl.

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace tutti::parallel::host {
namespace {

template <class T>
struct Vec;
template <>
struct Vec<float> {
  typedef float V __attribute__((vector_size(64)));
  static constexpr int64_t lanes = 16;
  static constexpr float lowest = -3.0e38f;
};
template <>
struct Vec<double> {
  typedef double V __attribute__((vector_size(64)));
  static constexpr int64_t lanes = 8;
  static constexpr double lowest = -1.0e308;
};
template <class T>
using V = typename Vec<T>::V;
typedef uint32_t Words __attribute__((vector_size(64)));
typedef int32_t Integers __attribute__((vector_size(64)));

template <class T>
TUTTI_INLINE V<T> splat(T value) {
  return value - V<T>{};
}

// The part of a vector that a row's end fills: `count` lanes, less than all.
#ifdef __AVX512F__
TUTTI_INLINE __mmask16 firstLanes(int64_t count) {
  return static_cast<__mmask16>((1U << count) - 1);
}
TUTTI_INLINE V<float> loadPart(const float* from, int64_t count, V<float> fill) {
  return (V<float>)_mm512_mask_loadu_ps((__m512)fill, firstLanes(count), from);
}
TUTTI_INLINE V<double> loadPart(const double* from, int64_t count, V<double> fill) {
  return (V<double>)_mm512_mask_loadu_pd((__m512d)fill, firstLanes(count), from);
}
TUTTI_INLINE void storePart(float* to, V<float> value, int64_t count) {
  _mm512_mask_storeu_ps(to, firstLanes(count), (__m512)value);
}
TUTTI_INLINE void storePart(double* to, V<double> value, int64_t count) {
  _mm512_mask_storeu_pd(to, firstLanes(count), (__m512d)value);
}
TUTTI_INLINE V<float> keepPart(V<float> value, int64_t count) {
  return (V<float>)_mm512_maskz_mov_ps(firstLanes(count), (__m512)value);
}
TUTTI_INLINE V<double> keepPart(V<double> value, int64_t count) {
  return (V<double>)_mm512_maskz_mov_pd(firstLanes(count), (__m512d)value);
}
#else
template <class T>
TUTTI_INLINE V<T> loadPart(const T* from, int64_t count, V<T> fill) {
  for (int64_t i = 0; i < count; ++i) fill[i] = from[i];
  return fill;
}
template <class T, class Vector>
TUTTI_INLINE void storePart(T* to, Vector value, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = value[i];
}
/// The other lanes become 0.
template <class Vector>
TUTTI_INLINE Vector keepPart(Vector value, int64_t count) {
  constexpr int64_t lanes = sizeof(Vector) / sizeof(value[0]);
  for (int64_t i = count; i < lanes; ++i) value[i] = 0;
  return value;
}
#endif

/// The next `count` elements, at most one vector; lanes beyond them hold `fill`.
template <class T>
TUTTI_INLINE V<T> load(const T* from, int64_t count, T fill = 0) {
  if (count < Vec<T>::lanes) return loadPart(from, count, splat<T>(fill));
  V<T> result;
  __builtin_memcpy(&result, from, sizeof(result));
  return result;
}

template <class T>
TUTTI_INLINE void store(T* to, const V<T>& value, int64_t count) {
  if (count < Vec<T>::lanes) return storePart(to, value, count);
  __builtin_memcpy(to, &value, sizeof(value));
}

/// The upper half of the lanes in the place of the lower one; then of the lower half's, and so on.
template <int half>
TUTTI_INLINE V<float> upper(V<float> v) {
  if constexpr (half == 8)
    return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  else if constexpr (half == 4)
    return __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
  else if constexpr (half == 2)
    return __builtin_shufflevector(v, v, 2, 3, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1);
  else
    return __builtin_shufflevector(v, v, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}
template <int half>
TUTTI_INLINE V<double> upper(V<double> v) {
  if constexpr (half == 4)
    return __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  else if constexpr (half == 2)
    return __builtin_shufflevector(v, v, 2, 3, 0, 1, 0, 1, 0, 1);
  else
    return __builtin_shufflevector(v, v, 1, 0, 0, 0, 0, 0, 0, 0);
}

/// Sum of the lanes: halves are added until one is left.
template <class T>
TUTTI_INLINE T sumLanes(V<T> v) {
  if constexpr (Vec<T>::lanes == 16) v += upper<8>(v);
  v += upper<4>(v);
  v += upper<2>(v);
  v += upper<1>(v);
  return v[0];
}

template <class T>
TUTTI_INLINE V<T> larger(V<T> a, V<T> b) {
  return b > a ? b : a;
}
template <class T>
TUTTI_INLINE T maxLanes(V<T> v) {
  if constexpr (Vec<T>::lanes == 16) v = larger<T>(v, upper<8>(v));
  v = larger<T>(v, upper<4>(v));
  v = larger<T>(v, upper<2>(v));
  v = larger<T>(v, upper<1>(v));
  return v[0];
}

/// From low to high; NaN stays NaN.
TUTTI_INLINE V<float> clamped(V<float> x, float low, float high) {
#ifdef __AVX512F__
  // Of a NaN both give their last operand. One instruction each, not a comparison and a move.
  const __m512 raised = _mm512_maskz_max_ps(0xffff, _mm512_set1_ps(low), (__m512)x);
  return (V<float>)_mm512_maskz_min_ps(0xffff, _mm512_set1_ps(high), raised);
#else
  x = x < splat(low) ? splat(low) : x;
  return x > splat(high) ? splat(high) : x;
#endif
}

/// exp in float32: x = n ln 2 + r, |r| <= ln 2 / 2; a polynomial of degree 6 for exp(r), the one
/// whose largest relative error is least where it begins with 1 + r; 2^n by its bits. Arguments are
/// clamped to [-87.3, 88.3], so the result is never denormal or infinite; NaN stays NaN. Error: the
/// polynomial's own is 2^-27.6 relative, with its coefficients rounded; r is within 2^-25 + 2^-33
/// |n| of its true value; Horner's last three roundings add at most 1.5 ulp. In all below 2.5 ulp;
/// elementwise_test measures it.
TUTTI_INLINE V<float> expLanes(V<float> x) {
  using F = V<float>;
  x = clamped(x, -87.3f, 88.3f);
  const F shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the last bits now hold n
  const F n = shifted - 12582912.0f;
  const F r = (x - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts, the first exact
  F p = r * 1.381454e-3f + 8.368745e-3f;
  p = p * r + 4.166839e-2f;
  p = p * r + 1.6666521e-1f;
  p = p * r + 4.9999994e-1f;
  p = p * (r * r) + r + 1.0f;
  const Words scale = ((Words)shifted << 23) + 0x3f800000u;
  return p * (F)scale;
}

/// log in float32 of what is normal and positive: x = 2^n (1 + f), with 1 + f between the roots of
/// 1/2 and of 2; f - f^2 / 2 and a polynomial for the rest (Cephes). Error: below 2^-23 |log x| +
/// 2^-25; elementwise_test measures it. NaN stays NaN, and of 0 it is minus infinity.
TUTTI_INLINE V<float> logLanes(V<float> x) {
  using F = V<float>;
  const Integers n = ((Integers)x - 0x3f3504f3) >> 23;
  const F f = (F)((Integers)x - (n << 23)) - 1.0f, square = f * f;
  const F e = __builtin_convertvector(n, F);
  F p = f * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const F rest = p * f * square + e * -2.12194440e-4f - square * 0.5f;
  const F result = f + rest + e * 0.693359375f;
  const F known = x > 0.0f ? result : splat(-__builtin_inff());
  return x == x ? known : x;
}
TUTTI_INLINE V<double> logLanes(V<double> x) {
  for (int i = 0; i < 8; ++i) x[i] = __builtin_log(x[i]);
  return x;
}

/// In float64 the C library's exp, lane by lane: this type is for checking gradients, not for
/// speed. Never infinite either, as what is divided by it is multiplied by it too.
TUTTI_INLINE V<double> expLanes(V<double> x) {
  for (int i = 0; i < 8; ++i) x[i] = __builtin_exp(x[i] > 708 ? 708 : x[i]);
  return x;
}

}  // namespace
}  // namespace tutti::parallel::host
