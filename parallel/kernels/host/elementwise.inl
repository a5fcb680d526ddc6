// The elementwise kernels, for the instruction set that this file is compiled for; TUTTI_LEAVES
// names the function that returns them. Included by elementwise_*.cc only.
//
// What bounds them: all but exp run at the speed of the first- or second-level cache; exp is about
// 20 instructions for 16 lanes.

#include "parallel/kernels/host/conversions.inl"
#include "parallel/kernels/host/elementwise.h"
#include "parallel/kernels/host/lanes.inl"

namespace tutti::parallel::host {
namespace {

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
    store<T>(logSumExp + r, most * scale + logLanes(total), left);
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
