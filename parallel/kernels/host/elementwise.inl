// The elementwise kernels, for the instruction set that this file is compiled for; TUTTI_LEAVES
// names the function that returns them. Included by elementwise_*.cc only.
//
// What bounds them: all but exp run at the speed of the first- or second-level cache; exp is about
// 20 instructions for 16 lanes.

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "parallel/kernels/host/conversions.inl"
#include "parallel/kernels/host/elementwise.h"

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

/// In float64 the C library's exp, lane by lane: this type is for checking gradients, not for
/// speed. Never infinite either, as what is divided by it is multiplied by it too.
TUTTI_INLINE V<double> expLanes(V<double> x) {
  for (int i = 0; i < 8; ++i) x[i] = __builtin_exp(x[i] > 708 ? 708 : x[i]);
  return x;
}

template <class T>
void add(T* to, const T* from, int64_t count) {
  for (int64_t i = 0; i < count; i += Vec<T>::lanes)
    store<T>(to + i, load<T>(to + i, count - i) + load<T>(from + i, count - i), count - i);
}

template <class T>
void addBias(T* y, int64_t stride, const T* bias, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) add<T>(y + r * stride, bias, width);
}

/// Adds rows to `kWide` vectors of columns at a time, to hide the latency of additions. `term(r, j,
/// left)` is row r's vector at column j, of which `left` lanes exist.
template <class T, class Term>
TUTTI_INLINE void sumColumns(int64_t rows, int64_t width, T* sums, bool accumulate, Term term) {
  constexpr int64_t kWide = 4, lanes = Vec<T>::lanes;
  for (int64_t begin = 0; begin < width; begin += kWide * lanes) {
    const int64_t left = width - begin;
    const int64_t vectors = left >= kWide * lanes ? kWide : (left + lanes - 1) / lanes;
    V<T> total[kWide];
    for (int64_t v = 0; v < kWide; ++v) total[v] = V<T>{};
    if (vectors == kWide && left >= kWide * lanes)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t v = 0; v < kWide; ++v) total[v] += term(r, begin + v * lanes, lanes);
    else
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t v = 0; v < vectors; ++v)
          total[v] += term(r, begin + v * lanes, left - v * lanes);
    for (int64_t v = 0; v < vectors; ++v) {
      T* to = sums + begin + v * lanes;
      if (accumulate) total[v] += load<T>(to, left - v * lanes);
      store<T>(to, total[v], left - v * lanes);
    }
  }
}

template <class T>
void columnSums(const T* dy, int64_t stride, int64_t rows, int64_t width, T* db, bool accumulate) {
  sumColumns<T>(rows, width, db, accumulate, [=](int64_t r, int64_t j, int64_t left) {
    return load<T>(dy + r * stride + j, left);
  });
}

template <class T>
void layerNorm(const T* x, const T* weight, const T* bias, T* y, T* mean, T* rstd, int64_t rows,
               int64_t width, T epsilon) {
  constexpr int64_t lanes = Vec<T>::lanes;
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    V<T> total{};
    for (int64_t j = 0; j < width; j += lanes) total += load<T>(x + j, width - j);
    const T m = sumLanes<T>(total) / T(width);
    V<T> squares{};
    for (int64_t j = 0; j < width; j += lanes) {
      const V<T> d = load<T>(x + j, width - j, m) - m;  // 0 in lanes beyond the row
      squares += d * d;
    }
    const T variance = sumLanes<T>(squares) / T(width);
    const T s = T(1) / T(__builtin_sqrt(double(variance + epsilon)));
    for (int64_t j = 0; j < width; j += lanes) {
      const V<T> normal = (load<T>(x + j, width - j) - m) * s;
      const V<T> scaled = normal * load<T>(weight + j, width - j);
      store<T>(y + j, scaled + load<T>(bias + j, width - j), width - j);
    }
    mean[r] = m;
    rstd[r] = s;
  }
}

template <class T>
void layerNormBackward(const T* dy, const T* x, const T* weight, const T* mean, const T* rstd,
                       const T* residual, T* dx, int64_t rows, int64_t width) {
  constexpr int64_t lanes = Vec<T>::lanes;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * width;
    V<T> total{}, along{};  // sums of d and of d * normal, where d = dy * weight
    for (int64_t j = 0; j < width; j += lanes) {
      const V<T> d = load<T>(dy + at + j, width - j) * load<T>(weight + j, width - j);
      const V<T> normal = (load<T>(x + at + j, width - j) - mean[r]) * rstd[r];
      total += d;
      along += d * normal;
    }
    const T meanD = sumLanes<T>(total) / T(width), meanAlong = sumLanes<T>(along) / T(width);
    for (int64_t j = 0; j < width; j += lanes) {
      const V<T> d = load<T>(dy + at + j, width - j) * load<T>(weight + j, width - j);
      const V<T> normal = (load<T>(x + at + j, width - j) - mean[r]) * rstd[r];
      V<T> result = (d - meanD - normal * meanAlong) * rstd[r];
      if (residual != nullptr) result += load<T>(residual + at + j, width - j);
      store<T>(dx + at + j, result, width - j);
    }
  }
}

template <class T>
void layerNormWeights(const T* dy, const T* x, const T* mean, const T* rstd, T* dWeight, T* dBias,
                      int64_t rows, int64_t width, bool addWeight, bool addBiasToo) {
  sumColumns<T>(rows, width, dWeight, addWeight, [=](int64_t r, int64_t j, int64_t left) {
    const V<T> normal = (load<T>(x + r * width + j, left) - mean[r]) * rstd[r];
    return load<T>(dy + r * width + j, left) * normal;
  });
  columnSums<T>(dy, width, rows, width, dBias, addBiasToo);
}

template <class T>
void rmsNorm(const T* x, const T* weight, T* y, T* rstd, int64_t rows, int64_t width, T epsilon) {
  constexpr int64_t lanes = Vec<T>::lanes;
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    V<T> squares{};
    for (int64_t j = 0; j < width; j += lanes) {
      const V<T> in = load<T>(x + j, width - j);
      squares += in * in;
    }
    const T mean = sumLanes<T>(squares) / T(width);
    const T s = T(1) / T(__builtin_sqrt(double(mean + epsilon)));
    for (int64_t j = 0; j < width; j += lanes)
      store<T>(y + j, load<T>(x + j, width - j) * s * load<T>(weight + j, width - j), width - j);
    rstd[r] = s;
  }
}

template <class T>
void rmsNormBackward(const T* dy, const T* x, const T* weight, const T* rstd, const T* residual,
                     T* dx, int64_t rows, int64_t width) {
  constexpr int64_t lanes = Vec<T>::lanes;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * width;
    V<T> along{};  // sum of d * normal, where d = dy * weight
    for (int64_t j = 0; j < width; j += lanes) {
      const V<T> d = load<T>(dy + at + j, width - j) * load<T>(weight + j, width - j);
      along += d * (load<T>(x + at + j, width - j) * rstd[r]);
    }
    const T meanAlong = sumLanes<T>(along) / T(width);
    for (int64_t j = 0; j < width; j += lanes) {
      const V<T> d = load<T>(dy + at + j, width - j) * load<T>(weight + j, width - j);
      const V<T> normal = load<T>(x + at + j, width - j) * rstd[r];
      V<T> result = (d - normal * meanAlong) * rstd[r];
      if (residual != nullptr) result += load<T>(residual + at + j, width - j);
      store<T>(dx + at + j, result, width - j);
    }
  }
}

template <class T>
void rmsNormWeights(const T* dy, const T* x, const T* rstd, T* dWeight, int64_t rows, int64_t width,
                    bool addWeight) {
  sumColumns<T>(rows, width, dWeight, addWeight, [=](int64_t r, int64_t j, int64_t left) {
    return load<T>(dy + r * width + j, left) * (load<T>(x + r * width + j, left) * rstd[r]);
  });
}

template <class T>
void rotate(T* first, T* second, const T* cosine, const T* sine, int64_t count, T turn) {
  for (int64_t i = 0; i < count; i += Vec<T>::lanes) {
    const int64_t left = count - i;
    const V<T> a = load<T>(first + i, left), b = load<T>(second + i, left);
    const V<T> c = load<T>(cosine + i, left), s = load<T>(sine + i, left) * turn;
    store<T>(first + i, a * c - b * s, left);
    store<T>(second + i, b * c + a * s, left);
  }
}

template <class T>
void swiGlu(const T* gate, const T* up, T* y, int64_t count) {
  for (int64_t i = 0; i < count; i += Vec<T>::lanes) {
    const int64_t left = count - i;
    const V<T> g = load<T>(gate + i, left);
    store<T>(y + i, g / (expLanes(-g) + T(1)) * load<T>(up + i, left), left);
  }
}

template <class T>
void swiGluBackward(const T* dy, const T* gate, const T* up, T* dGate, T* dUp, int64_t count) {
  for (int64_t i = 0; i < count; i += Vec<T>::lanes) {
    const int64_t left = count - i;
    const V<T> g = load<T>(gate + i, left), u = load<T>(up + i, left), d = load<T>(dy + i, left);
    const V<T> t = expLanes(-g);
    const V<T> s = splat<T>(1) / (t + T(1));
    // s + g s (1 - s); t s first: both t and 1 / s may be as large as 2^127.
    store<T>(dGate + i, d * u * (s + g * (t * s) * s), left);
    store<T>(dUp + i, d * (g * s), left);
  }
}

// GELU's tanh form is x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3): with t = exp(-2 u)
// it needs no tanh, and 1 - sigmoid = t / (1 + t) is had without cancellation.
template <class T>
TUTTI_INLINE V<T> expMinusTwoU(const V<T>& x, const V<T>& square) {
  constexpr T k = T(-2 * 0.79788456080286535588);
  return expLanes(x * (square * (k * T(0.044715)) + k));
}

template <class T>
void gelu(const T* x, T* y, int64_t count) {
  for (int64_t i = 0; i < count; i += Vec<T>::lanes) {
    const V<T> in = load<T>(x + i, count - i);
    store<T>(y + i, in / (expMinusTwoU<T>(in, in * in) + T(1)), count - i);
  }
}

template <class T>
void geluBackward(const T* dy, const T* x, T* dx, int64_t count) {
  constexpr T k = T(2 * 0.79788456080286535588);
  for (int64_t i = 0; i < count; i += Vec<T>::lanes) {
    const V<T> in = load<T>(x + i, count - i), square = in * in;
    const V<T> t = expMinusTwoU<T>(in, square);
    const V<T> s = splat<T>(1) / (t + T(1));
    // s + x s (1 - s) 2 u'; t s first: both t and 1 / s may be as large as 2^127.
    const V<T> slope = square * (k * T(3 * 0.044715)) + k;
    const V<T> derivative = s + in * (t * s) * s * slope;
    store<T>(dx + i, load<T>(dy + i, count - i) * derivative, count - i);
  }
}

template <class T>
TUTTI_INLINE T largest(const T* values, int64_t count) {
  V<T> most = splat<T>(Vec<T>::lowest);
  for (int64_t j = 0; j < count; j += Vec<T>::lanes) {
    const V<T> v = load<T>(values + j, count - j, Vec<T>::lowest);
    most = v > most ? v : most;
  }
  return maxLanes<T>(most);
}

/// Lane l is from + l.
template <class T>
TUTTI_INLINE V<T> counting(int64_t from) {
  V<T> result;
  for (int64_t i = 0; i < Vec<T>::lanes; ++i) result[i] = T(from + i);
  return result;
}

/// Of so many keys those that any of a vector of queries sees, the first of which sees `before`
/// besides its own.
template <class T>
TUTTI_INLINE int64_t seenKeys(int64_t keys, int64_t before) {
  const int64_t seen = before + Vec<T>::lanes;
  return seen < 0 ? 0 : seen < keys ? seen : keys;
}

/// Of keys [from, to).
template <class T>
TUTTI_INLINE void setUnseen(T* scores, int64_t from, int64_t to, int64_t rows, int64_t left) {
  for (int64_t k = from; k < to; ++k) store<T>(scores + k * rows, V<T>{}, left);
}

/// One vector of queries at a time: sums and maxima over keys need no sum over lanes.
template <class T>
void softmax(T* scores, int64_t keys, int64_t rows, int64_t before, T scale, T* logSumExp) {
  for (int64_t r = 0; r < rows; r += Vec<T>::lanes) {
    const int64_t left = rows - r, seen = seenKeys<T>(keys, before + r);
    const V<T> own = counting<T>(before + r), none = splat<T>(Vec<T>::lowest), nothing{};
    V<T> most = none, total{};
    for (int64_t k = 0; k < seen; ++k)
      most = larger<T>(most, splat(T(k)) <= own ? load<T>(scores + k * rows + r, left) : none);
    for (int64_t k = 0; k < seen; ++k) {
      T* const at = scores + k * rows + r;
      const V<T> e = expLanes((load<T>(at, left) - most) * scale);
      const V<T> weight = splat(T(k)) <= own ? e : nothing;
      total += weight;
      store<T>(at, weight, left);
    }
    const V<T> inverse = total == nothing ? nothing : splat<T>(1) / total;
    for (int64_t k = 0; k < seen; ++k) {
      T* const at = scores + k * rows + r;
      store<T>(at, load<T>(at, left) * inverse, left);
    }
    setUnseen<T>(scores + r, seen, keys, rows, left);
    for (int64_t i = 0; i < Vec<T>::lanes && i < left; ++i)
      logSumExp[r + i] = T(double(most[i]) * double(scale) + __builtin_log(double(total[i])));
  }
}

template <class T>
void softmaxBackward(T* scores, T* dScores, int64_t keys, int64_t rows, int64_t before, T scale,
                     const T* logSumExp, const T* dots) {
  for (int64_t r = 0; r < rows; r += Vec<T>::lanes) {
    const int64_t left = rows - r, seen = seenKeys<T>(keys, before + r);
    const V<T> own = counting<T>(before + r), nothing{};
    const V<T> shift = load<T>(logSumExp + r, left), mean = load<T>(dots + r, left);
    for (int64_t k = 0; k < seen; ++k) {
      const int64_t at = k * rows + r;
      const V<T> e = expLanes(load<T>(scores + at, left) * scale - shift);
      const V<T> p = splat(T(k)) <= own ? e : nothing;
      store<T>(dScores + at, p * (load<T>(dScores + at, left) - mean) * scale, left);
      store<T>(scores + at, p, left);
    }
    setUnseen<T>(scores + r, seen, keys, rows, left);
    setUnseen<T>(dScores + r, seen, keys, rows, left);
  }
}

template <class T>
T dot(const T* a, const T* b, int64_t count) {
  V<T> total{};
  for (int64_t j = 0; j < count; j += Vec<T>::lanes)
    total += load<T>(a + j, count - j) * load<T>(b + j, count - j);
  return sumLanes<T>(total);
}

template <class T>
void blend(T* to, const T* from, T keep, T take, int64_t count) {
  for (int64_t i = 0; i < count; i += Vec<T>::lanes) {
    const int64_t left = count - i;
    store<T>(to + i, load<T>(to + i, left) * keep + load<T>(from + i, left) * take, left);
  }
}

template <class T>
void logitStatistics(const T* logits, int64_t width, T* most, T* sum) {
  const T shift = largest<T>(logits, width);
  V<T> total{};
  for (int64_t j = 0; j < width; j += Vec<T>::lanes) {
    const int64_t left = width - j;
    V<T> e = expLanes(load<T>(logits + j, left, shift) - shift);
    if (left < Vec<T>::lanes) e = keepPart(e, left);
    total += e;
  }
  *most = shift;
  *sum = sumLanes<T>(total);
}

template <class T>
void scaledExp(T* logits, int64_t width, T shift, T factor) {
  for (int64_t j = 0; j < width; j += Vec<T>::lanes) {
    const int64_t left = width - j;
    store<T>(logits + j, expLanes(load<T>(logits + j, left, shift) - shift) * factor, left);
  }
}

// Plain loops that the compiler vectorizes: with nothing fused and nothing reordered, IEEE
// operations give a tail the bits that its body would have.
template <class T>
TUTTI_INLINE T root(T value);
template <>
TUTTI_INLINE float root<float>(float value) {
  return __builtin_sqrtf(value);
}
template <>
TUTTI_INLINE double root<double>(double value) {
  return __builtin_sqrt(value);
}

template <class T>
void adamW(T* __restrict weight, const T* __restrict gradient, T* __restrict first,
           T* __restrict second, int64_t count, const AdamWStep<T>& given) {
  const AdamWStep<T> step = given;
  const T keep1 = step.beta1, new1 = T(1) - step.beta1;
  const T keep2 = step.beta2, new2 = T(1) - step.beta2;
  for (int64_t i = 0; i < count; ++i) {
    const T g = gradient[i] * step.gradientScale;
    const T m = keep1 * first[i] + new1 * g;
    const T v = keep2 * second[i] + new2 * (g * g);
    first[i] = m;
    second[i] = v;
    const T direction =
        m * step.inverseCorrection1 / (root<T>(v * step.inverseCorrection2) + step.epsilon);
    weight[i] -= step.learningRate * (direction + step.weightDecay * weight[i]);
  }
}

template <class T>
void sgd(T* __restrict weight, const T* __restrict gradient, int64_t count,
         const SgdStep<T>& given) {
  const SgdStep<T> step = given;
  for (int64_t i = 0; i < count; ++i)
    weight[i] -=
        step.learningRate * (gradient[i] * step.gradientScale + step.weightDecay * weight[i]);
}

template <class T>
void momentumSgd(T* __restrict weight, const T* __restrict gradient, T* __restrict velocity,
                 int64_t count, const SgdStep<T>& given) {
  const SgdStep<T> step = given;
  for (int64_t i = 0; i < count; ++i) {
    const T slope = gradient[i] * step.gradientScale + step.weightDecay * weight[i];
    velocity[i] = step.momentum * velocity[i] + slope;
    weight[i] -= step.learningRate * velocity[i];
  }
}

template <class T>
constexpr ElementwiseKernels<T> table() {
  return {.add = add<T>,
          .addBias = addBias<T>,
          .columnSums = columnSums<T>,
          .layerNorm = layerNorm<T>,
          .layerNormBackward = layerNormBackward<T>,
          .layerNormWeights = layerNormWeights<T>,
          .rmsNorm = rmsNorm<T>,
          .rmsNormBackward = rmsNormBackward<T>,
          .rmsNormWeights = rmsNormWeights<T>,
          .rotate = rotate<T>,
          .swiGlu = swiGlu<T>,
          .swiGluBackward = swiGluBackward<T>,
          .gelu = gelu<T>,
          .geluBackward = geluBackward<T>,
          .softmax = softmax<T>,
          .softmaxBackward = softmaxBackward<T>,
          .dot = dot<T>,
          .blend = blend<T>,
          .logitStatistics = logitStatistics<T>,
          .scaledExp = scaledExp<T>,
          .adamW = adamW<T>,
          .sgd = sgd<T>,
          .momentumSgd = momentumSgd<T>};
}

constexpr ElementwiseSet kElementwise = {.name = TUTTI_LEAVES_NAME,
                                         .floats = table<float>(),
                                         .doubles = table<double>(),
                                         .widenBrain = widenBrain,
                                         .narrowBrain = narrowBrain,
                                         .widenHalf = widenHalf,
                                         .narrowHalf = narrowHalf};

}  // namespace

const ElementwiseSet& TUTTI_LEAVES() { return kElementwise; }

}  // namespace tutti::parallel::host
